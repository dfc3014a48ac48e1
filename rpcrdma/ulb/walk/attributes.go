package walk

import (
	"math/bits"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// attributes is the state of the walk in Attributes.
type attributes struct {
	set    uint32 // bits of the first word whose values are to come
	end    int    // offset of the end of the values
	total  int    // length of the whole stream; Walker.total is then that of the values
	depth  int    // of the frame of the attributes
	within bool   // the walk is over the values
}

// cut returns b without the bytes after the values. n bytes of b are consumed, and off is
// the offset of the next.
func (a *attributes) cut(b []byte, n, off int) []byte {
	return b[:min(len(b), n+a.end-off)]
}

// attributes processes the number of the set's words, each word, then the length of the
// values.
func (w *Walker) attributes(f *frame, v uint32) error {
	switch {
	case f.n == 0: // f.n is one more than the number of words
		if v > f.t.n {
			return ErrLimit
		}
		f.left, f.n = v, v+1
		w.attrs.set = 0
		return w.check(v, f.t.n, xdr.Unit)
	case f.left > 0:
		if f.left == f.n-1 {
			w.attrs.set = v
		}
		f.left--
		return nil
	}
	if err := w.check(v, maxLength, 1); err != nil {
		return err
	}
	if w.attrs.set&f.t.watch == 0 || xdr.Pad(int(v)) != 0 { // values are whole words
		w.depth--
		w.skip = xdr.Padded(int(v))
		return nil
	}
	a := &w.attrs
	a.within, a.depth, a.end, a.total = true, w.depth, w.off+int(v), w.total
	w.total = a.end
	return nil
}

// value goes to the next value of a set, or behind the last. It returns false if the set
// itself is not complete.
func (w *Walker) value(t *Type) bool {
	a := &w.attrs
	if !a.within {
		return false
	}
	i := bits.TrailingZeros32(a.set)
	if i < len(t.elems) {
		a.set &^= 1 << i
		w.push(t.elems[i])
		return true
	}
	w.leave()
	return true
}

// leave continues after the values.
func (w *Walker) leave() {
	a := &w.attrs
	w.depth = a.depth - 1
	w.skip, w.total, a.within = a.end-w.off, a.total, false
}

// dropped handles an error. It returns true if the error is inside the values of a set of
// attributes. These are opaque data to the stream, so the walk continues after them.
func (w *Walker) dropped() bool {
	if !w.attrs.within {
		return false
	}
	w.off += w.have
	w.have, w.err = 0, nil
	w.leave()
	return true
}

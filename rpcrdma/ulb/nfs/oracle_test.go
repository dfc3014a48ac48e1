package nfs

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"strings"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

var registry = ulb.NewRegistry(Bindings()...)

// dice is an endless stream of words that are likely to mean something. The
// oracle's own decoders draw from it, so that what comes out is whatever their
// types allow, with no help from our tables.
type dice struct {
	r    *rand.Rand
	left int // bytes before it ends
	log  []byte
}

func (d *dice) Read(p []byte) (int, error) {
	if d.left -= len(p); d.left < 0 {
		return 0, io.EOF
	}
	switch len(p) {
	case 1, 2, 3: // roundup, or opaque data that has to pass for text
		clear(p)
	case 4:
		binary.BigEndian.PutUint32(p, d.word())
	default:
		for i := range p {
			p[i] = byte(d.r.IntN(128))
		}
	}
	d.log = append(d.log, p...)
	return len(p), nil
}

func (d *dice) word() uint32 {
	switch n := d.r.IntN(20); {
	case n < 4:
		return 0
	case n < 9:
		return d.r.Uint32N(4)
	case n < 16:
		return d.r.Uint32N(8)
	case n < 18:
		return d.r.Uint32N(16)
	case n == 18:
		return [...]uint32{10005, 10008, 10010, 10017, 10058, 10094}[d.r.IntN(6)]
	default:
		return d.r.Uint32()
	}
}

// roll draws until decode is content, and returns the bytes. Those of prefix
// come first.
func roll(r *rand.Rand, prefix []byte, decode func(io.Reader) error) []byte {
	for {
		d := &dice{r: r, left: 4096}
		if decode(io.MultiReader(bytes.NewReader(prefix), d)) == nil {
			return append(bytes.Clone(prefix), d.log...)
		}
	}
}

// side is one of the two arrays of operations.
type side struct {
	ops    []op
	decode func(io.Reader) (any, error)
	head   func(tag string, count int) []byte
	whole  func(io.Reader) (any, int64, error)
}

func header(words ...any) []byte {
	var b []byte
	for _, w := range words {
		switch w := w.(type) {
		case int:
			b = xdr.AppendUint32(b, uint32(w))
		case string:
			b = xdr.AppendString(b, w)
		}
	}
	return b
}

func known() []op { return append(append(state(), sessions()...), copies()...) }

var (
	callSide = side{known(),
		func(r io.Reader) (any, error) { m, _, err := nfsv4.ReadNfsArgop4(r); return m, err },
		func(tag string, n int) []byte { return header(tag, 2, n) },
		func(r io.Reader) (any, int64, error) {
			var m nfsv4.Compound4args
			n, err := m.ReadFrom(r)
			return m.Argarray, n, err
		}}
	replySide = side{known(),
		func(r io.Reader) (any, error) { m, _, err := nfsv4.ReadNfsResop4(r); return m, err },
		func(tag string, n int) []byte { return header(0, tag, n) },
		func(r io.Reader) (any, int64, error) {
			var m nfsv4.Compound4res
			n, err := m.ReadFrom(r)
			return m.Resarray, n, err
		}}
)

// beyondOracle are the operations that go-xdr does not know.
func beyondOracle(number uint32) bool { return number >= 72 && number < opIllegal }

// op draws an operation; of results, most succeed.
func (s *side) op(r *rand.Rand, number uint32) []byte {
	prefix := header(int(number))
	if s == &replySide && r.IntN(4) > 0 {
		prefix = header(int(number), 0)
	}
	return roll(r, prefix, func(r io.Reader) error { _, err := s.decode(r); return err })
}

// compound draws a whole body of n operations. Every other one may have an
// item.
func (s *side) compound(r *rand.Rand, n int) []byte {
	b := s.head("tags"[:r.IntN(5)], n)
	for range n {
		number := s.ops[r.IntN(len(s.ops))].number
		if r.IntN(2) == 0 {
			number = [...]uint32{6, 25, 27, 38}[r.IntN(4)]
		}
		if !beyondOracle(number) {
			b = append(b, s.op(r, number)...)
			continue
		}
		b = append(b, s.op(r, 22)...)
	}
	return b
}

// items finds, by decoding, where the DDP-eligible items of a body are, which
// starts with a header of head bytes.
func items(ops any, head int) []ulb.Item {
	var found []ulb.Item
	at := head
	switch ops := ops.(type) {
	case []nfsv4.NfsArgop4:
		for _, o := range ops {
			end := at + o.GetEncodedSizeBytes()
			switch o := o.(type) {
			case *nfsv4.NfsArgop4_OP_WRITE:
				found = append(found, last(end, o.Opwrite.Data))
			case *nfsv4.NfsArgop4_OP_CREATE:
				if link, ok := o.Opcreate.Objtype.(*nfsv4.Createtype4_NF4LNK); ok {
					found = append(found, ulb.Item{Pos: at + 12, Len: len(link.Linkdata)})
				}
			}
			at = end
		}
	case []nfsv4.NfsResop4:
		for _, o := range ops {
			end := at + o.GetEncodedSizeBytes()
			switch o := o.(type) {
			case *nfsv4.NfsResop4_OP_READ:
				if ok, is := o.Opread.(*nfsv4.Read4res_NFS4_OK); is {
					found = append(found, last(end, ok.Resok4.Data))
				}
			case *nfsv4.NfsResop4_OP_READLINK:
				if ok, is := o.Opreadlink.(*nfsv4.Readlink4res_NFS4_OK); is {
					found = append(found, last(end, ok.Resok4.Link))
				}
			}
			at = end
		}
	}
	return found
}

// last is the item that ends an operation.
func last(end int, data []byte) ulb.Item {
	return ulb.Item{Pos: end - xdr.Padded(len(data)), Len: len(data)}
}

// asksFor makes a call that asks for the results of the reply ops, as large as
// can be, and for some READs more.
func asksFor(ops []nfsv4.NfsResop4) *oncrpc.Call {
	for range 16 {
		ops = append(ops, &nfsv4.NfsResop4_OP_READ{})
	}
	args := header("", 0, len(ops))
	for _, o := range ops {
		switch o.(type) {
		case *nfsv4.NfsResop4_OP_READ:
			args = append(args, header(25, 0, 0, 0, 0, 0, 0, -1)...)
		case *nfsv4.NfsResop4_OP_READLINK:
			args = append(args, header(27)...)
		default:
			args = append(args, header(24)...) // PUTROOTFH asks for nothing
		}
	}
	return v4call(args)
}

func v4call(args []byte) *oncrpc.Call {
	return &oncrpc.Call{Program: program, Version: 4, Procedure: 1, Args: oncrpc.Payload{Stream: args}}
}

// pickier says that the oracle refuses what the walker does not look at:
// roundup and text; or does not know what the walker knows: the delegations of
// RFC 9754, and extended attributes.
func pickier(err error) bool {
	text := err.Error()
	for _, s := range []string{"padding contains", "UTF-8", "non-ASCII"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	for _, s := range []string{"open_delegation4.delegation_type has unknown value 4", "open_delegation4.delegation_type has unknown value 5",
		"value 72", "value 73", "value 74", "value 75"} {
		if strings.Contains(text, s) {
			return true
		}
	}
	return false
}

package referee

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

// traits are the characteristics that one side announced (wire reference §5.1).
// A pointer is nil while nothing was announced.
type traits struct {
	size       *uint32 // characteristic 1
	invalidate *bool   // characteristic 2
	backward   *goxdr.Xchbrs
	rtr        *uint32
	structure  *layout
	// unclear means that the structure is contradictory or exceeds our bounds.
	unclear   bool
	requests  uint32  // characteristic 6: transmissions of a request that it takes
	responses *uint32 // characteristic 7: transmissions of a response that it sends
}

// untold are the defaults for a side that announced nothing.
var untold = traits{requests: 1}

// The characteristics that a specification describes.
const (
	charSize       = goxdr.XCHAR_RBSIZE
	charInvalidate = goxdr.XCHAR_RQRINV
	charBackward   = goxdr.XCHAR_BRS
	charRTR        = goxdr.XCHAR_RTRSUPP
	charStructure  = goxdr.XCHAR_RBSTRUCT
	charRequests   = goxdr.XCHAR_REQRXLIM
	charResponses  = goxdr.XCHAR_RESPSXLIM
)

// defaultSize is the default receive size of version 2, in bytes (version two
// §2.3). Empty data of characteristic 1 also means this size.
const defaultSize = 4096

// set stores one element of an xcharset in t. It returns why the data is
// malformed. It skips unknown characteristics.
func (t *traits) set(v goxdr.Xcharval) error {
	switch v.Xchv_which {
	case charSize:
		n := uint32(defaultSize)
		return store(v, xdr.XDR_uint32(&n), &n, &t.size)
	case charInvalidate:
		var yes bool
		return store(v, xdr.XDR_bool(&yes), &yes, &t.invalidate)
	case charBackward:
		b := goxdr.XCHBRS_INLINE
		return store(v, goxdr.XDR_Xchbrs(&b), &b, &t.backward)
	case charRTR:
		var bits uint32
		return store(v, xdr.XDR_uint32(&bits), &bits, &t.rtr)
	case charStructure:
		var b goxdr.Xmrbs_buf
		if err := value(v, &b); err != nil {
			return err
		}
		t.structure, t.unclear = nil, false
		if len(v.Xchv_data) == 0 {
			return nil
		}
		err := addsUp(&b)
		if err == nil {
			t.structure = newLayout(&b)
		}
		t.unclear = t.structure == nil
		return err
	case charRequests:
		n := uint32(1)
		if err := value(v, xdr.XDR_uint32(&n)); err != nil {
			return err
		}
		t.requests = n
	case charResponses:
		n := uint32(1)
		return store(v, xdr.XDR_uint32(&n), &n, &t.responses)
	}
	return nil
}

// store decodes v's data into what, through its type in, and has to point at it.
func store[T any](v goxdr.Xcharval, in xdr.XdrType, what *T, to **T) error {
	err := value(v, in)
	if err == nil {
		*to = what
	}
	return err
}

// value decodes v's data into t. Empty data means the default and leaves t
// unchanged.
func value(v goxdr.Xcharval, t xdr.XdrType) error {
	if len(v.Xchv_data) == 0 {
		return nil
	}
	if err := decodeAll(v.Xchv_data, t); err != nil {
		return fmt.Errorf("characteristic %d: %w", v.Xchv_which, err)
	}
	return nil
}

// errSum means that the lengths in a structure contradict each other. Its
// receiver may take it for no structure.
var errSum = errors.New("characteristic 5")

// addsUp returns an errSum if the segments of a structure don't add up to its
// length.
func addsUp(b *goxdr.Xmrbs_buf) error {
	var sum uint64
	for _, g := range b.Xmrbuf_groups {
		if sum += uint64(g.Xmrgrp_count) * uint64(g.Xmrgrp_info.Xmrseg_length); sum > 1<<32 {
			break
		}
	}
	if sum != uint64(b.Xmrbuf_length) {
		return fmt.Errorf("%w: segments of %d bytes in a buffer of %d", errSum, sum, b.Xmrbuf_length)
	}
	return nil
}

// receives returns the size of one receive in bytes, or otherwise if the side
// announced none (rtrext §8.3).
func (t *traits) receives(otherwise uint32) uint32 {
	switch {
	case t.size != nil:
		return *t.size
	case t.structure != nil:
		return uint32(min(t.structure.size, 1<<32-1))
	}
	return otherwise
}

// possible reports whether every receiver of t has to believe it: receives hold what all
// peers take, and their structure.
func (t *traits) possible() bool {
	size := t.receives(defaultSize)
	return size >= firstSize && (t.structure == nil || t.structure.size <= uint64(size))
}

// answers returns how many transmissions a response of the side may have. A
// side that announced nothing is bound only by its peer's rsbuf.
func (t *traits) answers() uint32 {
	if t.responses == nil {
		return math.MaxUint32
	}
	return max(*t.responses, 1)
}

// same reports whether characteristic number which is the same in t and u.
func (t *traits) same(u *traits, which uint32) bool {
	switch which {
	case charSize:
		return alike(t.size, u.size)
	case charInvalidate:
		return alike(t.invalidate, u.invalidate)
	case charBackward:
		return alike(t.backward, u.backward)
	case charRTR:
		return alike(t.rtr, u.rtr)
	case charStructure:
		return equalLayouts(t.structure, u.structure)
	case charRequests:
		return t.requests == u.requests
	case charResponses:
		return alike(t.responses, u.responses)
	}
	return true
}

func alike[T comparable](a, b *T) bool {
	return a == b || a != nil && b != nil && *a == *b
}

func equalLayouts(a, b *layout) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.size == b.size && slices.Equal(a.targets, b.targets)
}

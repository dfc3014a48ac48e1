package rpcrdma1

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
)

// A second implementation, straight from the XDR of RFC 5666 §4.3 and without
// regard to cost, for the first to be compared with.

// naiveAppend encodes h.
func naiveAppend(h *Header) []byte {
	words := []any{h.XID, h.Version, h.Credits, uint32(h.Proc)}
	switch h.Proc {
	case Done:
	case Error:
		words = append(words, uint32(h.Err))
		if h.Err == ErrVers {
			words = append(words, h.Low, h.High)
		}
	case MsgP:
		words = append(words, h.Align, h.Thresh)
		words = append(words, naiveLists(h)...)
	default:
		words = append(words, naiveLists(h)...)
	}
	var b bytes.Buffer
	for _, w := range words {
		if err := binary.Write(&b, binary.BigEndian, w); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

func naiveLists(h *Header) (words []any) {
	for _, r := range h.Reads {
		words = append(words, uint32(1), r)
	}
	words = append(words, uint32(0))
	for _, c := range h.Writes {
		words = append(words, uint32(1), uint32(len(c)), []Segment(c))
	}
	words = append(words, uint32(0))
	if !h.HasReply {
		return append(words, uint32(0))
	}
	return append(words, uint32(1), uint32(len(h.Reply)), []Segment(h.Reply))
}

// naiveReader reads big-endian values and panics with errNaive when it can't.
type naiveReader struct{ *bytes.Reader }

var errNaive = errors.New("malformed")

func (r naiveReader) read(v any) {
	if binary.Read(r, binary.BigEndian, v) != nil {
		panic(errNaive)
	}
}

func (r naiveReader) word() (v uint32) {
	r.read(&v)
	return v
}

func (r naiveReader) present() bool {
	v := r.word()
	if v > 1 {
		panic(errNaive)
	}
	return v == 1
}

func (r naiveReader) chunk() WriteChunk {
	n := r.word()
	if n > MaxSegments {
		panic(errNaive)
	}
	c := make(WriteChunk, n)
	r.read([]Segment(c))
	return c
}

// naiveDecode decodes a version-1 header and its length. ok is false for
// anything else.
func naiveDecode(b []byte) (h Header, n int, ok bool) {
	defer func() {
		if r := recover(); r != nil && r != any(errNaive) {
			panic(r)
		}
	}()
	r := naiveReader{bytes.NewReader(b)}
	h.XID, h.Version, h.Credits, h.Proc = r.word(), r.word(), r.word(), Proc(r.word())
	if h.Version != Version || h.Proc > Error {
		return h, 0, false
	}
	switch h.Proc {
	case Done:
	case Error:
		h.Err = ErrCode(r.word())
		if h.Err == ErrVers {
			h.Low, h.High = r.word(), r.word()
		} else if h.Err != ErrChunk {
			return h, 0, false
		}
	case MsgP:
		h.Align, h.Thresh = r.word(), r.word()
		r.lists(&h)
	default:
		r.lists(&h)
	}
	return h, len(b) - r.Len(), true
}

func (r naiveReader) lists(h *Header) {
	for r.present() {
		var s ReadSegment
		r.read(&s)
		h.Reads = append(h.Reads, s)
	}
	for r.present() {
		h.Writes = append(h.Writes, r.chunk())
	}
	if h.HasReply = r.present(); h.HasReply {
		h.Reply = r.chunk()
	}
	if len(h.Reads) > MaxReadSegments || len(h.Writes) > MaxWriteChunks {
		panic(errNaive)
	}
}

// equal compares two headers; an empty list and none are the same.
func equal(a, b *Header) bool {
	x, y := *a, *b
	x.Reads, x.Writes, x.Reply = nil, nil, nil
	y.Reads, y.Writes, y.Reply = nil, nil, nil
	scalars := x.XID == y.XID && x.Version == y.Version && x.Credits == y.Credits && x.Proc == y.Proc &&
		x.HasReply == y.HasReply && x.Align == y.Align && x.Thresh == y.Thresh &&
		x.Err == y.Err && x.Low == y.Low && x.High == y.High
	return scalars && slices.Equal(a.Reads, b.Reads) && slices.Equal(a.Reply, b.Reply) &&
		slices.EqualFunc(a.Writes, b.Writes, slices.Equal[WriteChunk])
}

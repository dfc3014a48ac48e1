package rpcrdma1

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wiretest"
)

func TestTranscripts(t *testing.T) {
	for name, tr := range wiretest.Transcripts(t) {
		t.Run(name, func(t *testing.T) {
			var h Header
			n, err := h.Decode(append(bytes.Clone(tr.Header), tr.Rest...))
			if got := describe(&h, err); got != tr.Want {
				t.Errorf("decoded:\n%s\nwant:\n%s", got, tr.Want)
			}
			if err != nil {
				return
			}
			if n != len(tr.Header) {
				t.Errorf("header of %d bytes, want %d", n, len(tr.Header))
			}
			if got := h.Append(nil); !bytes.Equal(got, tr.Header) {
				t.Errorf("encoded:\n%x\nwant:\n%x", got, tr.Header)
			}
		})
	}
}

// TestTruncatedTranscripts cuts every transcript off everywhere: nothing but
// the whole header is a header, and the prefix fields survive.
func TestTruncatedTranscripts(t *testing.T) {
	for name, tr := range wiretest.Transcripts(t) {
		t.Run(name, func(t *testing.T) {
			for n := range tr.Header {
				h := Header{XID: 1, Reads: make([]ReadSegment, 3)}
				_, err := h.Decode(tr.Header[:n])
				p, ok := DecodePrefix(tr.Header[:n])
				switch {
				case !ok && !errors.Is(err, ErrShort):
					t.Errorf("first %d bytes: %v, want %v", n, err, ErrShort)
				case ok && p.Version != Version && !errors.Is(err, ErrVersion):
					t.Errorf("first %d bytes: %v, want %v", n, err, ErrVersion)
				case ok && p.Version == Version && !errors.Is(err, ErrMalformed):
					t.Errorf("first %d bytes: %v, want %v", n, err, ErrMalformed)
				}
				if ok && (p != Prefix{h.XID, h.Version, h.Credits, h.Proc} || len(h.Reads)+len(h.Writes)+len(h.Reply) != 0) {
					t.Errorf("first %d bytes: %+v, want prefix %+v and nothing else", n, h, p)
				}
			}
		})
	}
}

// describe says what Decode gave, as the transcripts do.
func describe(h *Header, err error) string {
	if errors.Is(err, ErrVersion) {
		return fmt.Sprintf("unsupported version: xid %08x version %d credits %d proc %d", h.XID, h.Version, h.Credits, h.Proc)
	}
	if err != nil {
		return err.Error()
	}
	names := map[Proc]string{Msg: "MSG", NoMsg: "NOMSG", MsgP: "MSGP", Done: "DONE", Error: "ERROR"}
	s := fmt.Sprintf("%s xid %08x version %d credits %d", names[h.Proc], h.XID, h.Version, h.Credits)
	if h.Proc == MsgP {
		s += fmt.Sprintf(" align %d thresh %d", h.Align, h.Thresh)
	}
	switch h.Err {
	case ErrVers:
		s += fmt.Sprintf("\nERR_VERS %d to %d", h.Low, h.High)
	case ErrChunk:
		s += "\nERR_CHUNK"
	}
	for _, r := range h.Reads {
		s += fmt.Sprintf("\nread at %d: %v", r.Position, r.Segment)
	}
	for _, c := range h.Writes {
		s += fmt.Sprintf("\nwrite: %v", c)
	}
	if h.HasReply {
		s += fmt.Sprintf("\nreply: %v", h.Reply)
	}
	return s
}

// String is handle, length and offset.
func (s Segment) String() string {
	return fmt.Sprintf("%08x %d %x", s.Handle, s.Length, s.Offset)
}

// String is the chunk's segments with commas between them.
func (c WriteChunk) String() string {
	if len(c) == 0 {
		return "none"
	}
	var parts []string
	for _, s := range c {
		parts = append(parts, s.String())
	}
	return strings.Join(parts, ", ")
}

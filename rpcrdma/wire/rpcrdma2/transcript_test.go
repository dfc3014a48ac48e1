package rpcrdma2

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wiretest"
)

func TestTranscripts(t *testing.T) {
	for name, tr := range wiretest.Transcripts(t) {
		t.Run(name, func(t *testing.T) {
			var h Header
			n, err := h.Decode(append(bytes.Clone(tr.Header), tr.Rest...))
			if got := describe(t, &h, err); got != tr.Want {
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
// the whole header is a header, nothing but the whole body a body, and the
// prefix fields survive.
func TestTruncatedTranscripts(t *testing.T) {
	for name, tr := range wiretest.Transcripts(t) {
		t.Run(name, func(t *testing.T) {
			for n := range tr.Header {
				h := Header{Header: rpcrdma1.Header{XID: 1, Reads: make([]ReadSegment, 3)}, Info: tr.Header}
				_, err := h.Decode(tr.Header[:n])
				p, ok := rpcrdma1.DecodePrefix(tr.Header[:n])
				switch {
				case !ok && !errors.Is(err, rpcrdma1.ErrShort):
					t.Errorf("first %d bytes: %v, want %v", n, err, rpcrdma1.ErrShort)
				case ok && p.Version != Version && !errors.Is(err, rpcrdma1.ErrVersion):
					t.Errorf("first %d bytes: %v, want %v", n, err, rpcrdma1.ErrVersion)
				case ok && p.Version == Version && !errors.Is(err, ErrMalformed):
					t.Errorf("first %d bytes: %v, want %v", n, err, ErrMalformed)
				}
				left := len(h.Reads) + len(h.Writes) + len(h.Reply) + len(h.Info)
				if ok && (p != rpcrdma1.Prefix{XID: h.XID, Version: h.Version, Credits: h.Credits, Proc: h.Proc} || left != 0) {
					t.Errorf("first %d bytes: %+v, want prefix %+v and nothing else", n, h, p)
				}
			}
			var h Header
			if _, err := h.Decode(tr.Header); err != nil || h.Proc != Optional {
				return
			}
			for n := range h.Info {
				if b, ok := bodies[h.Option]; ok && b.ours().Decode(h.Info[:n]) == nil {
					t.Errorf("the first %d bytes of the body are a body", n)
				}
			}
		})
	}
}

// TestNoAllocations decodes and encodes what the transcripts have, headers and
// bodies, with storage that is there.
func TestNoAllocations(t *testing.T) {
	for name, tr := range wiretest.Transcripts(t) {
		var h Header
		var body Body
		if _, err := h.Decode(tr.Header); err != nil {
			continue
		}
		if b, ok := bodies[h.Option]; ok && h.Proc == Optional {
			body = b.ours()
		}
		buf, info := make([]byte, 0, 4096), make([]byte, 0, 4096)
		var failed error
		allocs := testing.AllocsPerRun(100, func() {
			n, err := h.Decode(tr.Header)
			if err == nil && body != nil {
				if err = body.Decode(h.Info); err == nil {
					info = body.Append(info[:0])
					h.Info = info
				}
			}
			buf = h.Append(buf[:0])
			if err != nil || n != len(buf) || !bytes.Equal(buf, tr.Header) {
				failed = fmt.Errorf("%d bytes decoded, %x encoded, %w", n, buf, err)
			}
		})
		if allocs != 0 || failed != nil {
			t.Errorf("%s: %v allocations, want none; %v", name, allocs, failed)
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, name := range []string{"msg-call", "xmtreq"} {
		b.Run(name, func(b *testing.B) {
			header := wiretest.Transcripts(b)[name].Header
			var h Header
			var body XmtReq
			b.ReportAllocs()
			for b.Loop() {
				if _, err := h.Decode(header); err != nil {
					b.Fatal(err)
				}
				if h.Proc == Optional && body.Decode(h.Info) != nil {
					b.Fatal("no XMTREQ")
				}
			}
		})
	}
}

// describe says what Decode gave, as the transcripts do. An operation's body
// is that of its type.
func describe(t *testing.T, h *Header, err error) string {
	if err != nil {
		return fmt.Sprintf("%v: xid %08x version %d credits %d proc %d", err, h.XID, h.Version, h.Credits, h.Proc)
	}
	names := map[rpcrdma1.Proc]string{Msg: "MSG", NoMsg: "NOMSG", Error: "ERROR", Optional: "OPTIONAL"}
	s := fmt.Sprintf("%s xid %08x version %d credits %d", names[h.Proc], h.XID, h.Version, h.Credits)
	if h.Proc == Error {
		return s + map[rpcrdma1.ErrCode]string{
			ErrVers:        fmt.Sprintf("\nERR_VERS %d to %d", h.Low, h.High),
			ErrBadHeader:   "\nBAD_HEADER",
			ErrInvalOption: "\nINVAL_OPTION",
		}[h.Err]
	}
	s += map[Direction]string{Call: " call", Reply: " reply"}[h.Direction]
	if h.Proc == Optional {
		return s + "\n" + describeOption(t, h)
	}
	for _, r := range h.Reads {
		s += fmt.Sprintf("\nread at %d: %+v", r.Position, r.Segment)
	}
	for _, c := range h.Writes {
		s += fmt.Sprintf("\nwrite: %+v", c)
	}
	if h.HasReply {
		s += fmt.Sprintf("\nreply: %+v", h.Reply)
	}
	return s
}

func describeOption(t *testing.T, h *Header) string {
	kind, ok := bodies[h.Option]
	if !ok {
		return fmt.Sprintf("operation %d: %x", h.Option, h.Info)
	}
	body := kind.ours()
	if err := body.Decode(h.Info); err != nil {
		return fmt.Sprintf("%s: %v", kind.name, err)
	}
	if !bytes.Equal(body.Append(nil), h.Info) || sizeOf(body) != len(h.Info) {
		t.Errorf("%s of size %d encoded %x, was %x", kind.name, sizeOf(body), body.Append(nil), h.Info)
	}
	return strings.Replace(fmt.Sprintf("%s %+v", kind.name, body), "&", "", 1)
}

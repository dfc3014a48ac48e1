package rpcrdma2

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// transcript is one file of testdata.
type transcript struct {
	header []byte
	rest   []byte // the payload
	want   string
}

func TestTranscripts(t *testing.T) {
	for name, tr := range readTranscripts(t) {
		t.Run(name, func(t *testing.T) {
			var h Header
			n, err := h.Decode(append(bytes.Clone(tr.header), tr.rest...))
			if got := describe(t, &h, err); got != tr.want {
				t.Errorf("decoded:\n%s\nwant:\n%s", got, tr.want)
			}
			if err != nil {
				return
			}
			if n != len(tr.header) {
				t.Errorf("header of %d bytes, want %d", n, len(tr.header))
			}
			if got := h.Append(nil); !bytes.Equal(got, tr.header) {
				t.Errorf("encoded:\n%x\nwant:\n%x", got, tr.header)
			}
		})
	}
}

// TestTruncatedTranscripts cuts every transcript off everywhere: nothing but
// the whole header is a header, nothing but the whole body a body, and the
// prefix fields survive.
func TestTruncatedTranscripts(t *testing.T) {
	for name, tr := range readTranscripts(t) {
		t.Run(name, func(t *testing.T) {
			for n := range tr.header {
				h := Header{Header: rpcrdma1.Header{XID: 1, Reads: make([]ReadSegment, 3)}, Info: tr.header}
				_, err := h.Decode(tr.header[:n])
				p, ok := rpcrdma1.DecodePrefix(tr.header[:n])
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
			if _, err := h.Decode(tr.header); err != nil || h.Proc != Optional {
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
	for name, tr := range readTranscripts(t) {
		var h Header
		var body Body
		if _, err := h.Decode(tr.header); err != nil {
			continue
		}
		if b, ok := bodies[h.Option]; ok && h.Proc == Optional {
			body = b.ours()
		}
		buf, info := make([]byte, 0, 4096), make([]byte, 0, 4096)
		var failed error
		allocs := testing.AllocsPerRun(100, func() {
			n, err := h.Decode(tr.header)
			if err == nil && body != nil {
				if err = body.Decode(h.Info); err == nil {
					info = body.Append(info[:0])
					h.Info = info
				}
			}
			buf = h.Append(buf[:0])
			if err != nil || n != len(buf) || !bytes.Equal(buf, tr.header) {
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
			header := readTranscripts(b)[name].header
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

func readTranscripts(t testing.TB) map[string]transcript {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	all := make(map[string]transcript)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		data, want, _ := strings.Cut(string(text), "--\n")
		header, rest, _ := strings.Cut(data, "++\n")
		all[strings.TrimSuffix(filepath.Base(file), ".txt")] = transcript{
			header: unhex(t, header),
			rest:   unhex(t, rest),
			want:   strings.TrimSpace(want),
		}
	}
	return all
}

// unhex decodes lines of hex digits with blanks between them and comments
// after a #.
func unhex(t testing.TB, text string) []byte {
	t.Helper()
	var digits strings.Builder
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatal(err)
	}
	return b
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
	if !bytes.Equal(body.Append(nil), h.Info) || body.Size() != len(h.Info) {
		t.Errorf("%s of size %d encoded %x, was %x", kind.name, body.Size(), body.Append(nil), h.Info)
	}
	return strings.Replace(fmt.Sprintf("%s %+v", kind.name, body), "&", "", 1)
}

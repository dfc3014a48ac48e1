package mpa

import (
	"bytes"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestFrameRoundTrip(t *testing.T) {
	for _, f := range []Frame{
		{Kind: Request, Revision: Revision1},
		{Kind: Reply, Revision: Revision1, CRC: true, PrivateData: []byte("hello")},
		{Kind: Reply, Revision: Revision1, Reject: true, Markers: true},
		{Kind: Request, Revision: Revision2, PrivateData: []byte{1}},
		{
			Kind: Request, Revision: Revision2, Enhanced: true, CRC: true, PrivateData: make([]byte, MaxPrivateData-EnhancedSize),
			EnhancedData: Enhanced{IRD: 128, ORD: MaxDepth, PeerToPeer: true, RTR: RTRSend | RTRWrite | RTRRead},
		},
		{Kind: Reply, Revision: Revision2, Enhanced: true, EnhancedData: Enhanced{IRD: 1, ORD: 2, RTR: RTRRead}},
	} {
		b, err := f.Append([]byte("before"))
		if err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		b = b[len("before"):]
		if len(b) != f.Size() {
			t.Errorf("%+v: %d bytes, Size says %d", f, len(b), f.Size())
		}
		got, n, err := DecodeFrame(f.Kind, append(b, "behind"...))
		if err != nil || n != len(b) {
			t.Fatalf("%+v: took %d of %d bytes: %v", f, n, len(b), err)
		}
		if len(f.PrivateData) == 0 {
			f.PrivateData = []byte{}
		}
		if !reflect.DeepEqual(got, f) {
			t.Errorf("decoded %+v, encoded %+v", got, f)
		}
		for i := range b {
			if _, _, err := DecodeFrame(f.Kind, b[:i]); !errors.Is(err, ErrShort) {
				t.Fatalf("%d of %d bytes: %v", i, len(b), err)
			}
		}
	}
}

func TestFrameTooLong(t *testing.T) {
	for _, f := range []Frame{
		{Revision: Revision1, PrivateData: make([]byte, MaxPrivateData+1)},
		{Revision: Revision2, Enhanced: true, PrivateData: make([]byte, MaxPrivateData-EnhancedSize+1)},
	} {
		if b, err := f.Append([]byte{7}); !errors.Is(err, ErrPrivateData) || !bytes.Equal(b, []byte{7}) {
			t.Errorf("%d bytes of private data: %x, %v", len(f.PrivateData), b, err)
		}
	}
}

func TestFrameRefused(t *testing.T) {
	good, err := (&Frame{Revision: Revision2, Enhanced: true}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	change := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return append(b, make([]byte, 1<<16)...)
	}
	for _, c := range []struct {
		name  string
		frame []byte
		want  error
	}{
		{"foreign key", change(4, 'X'), ErrKey},
		{"reply for a request", bytes.Replace(good, []byte("Req"), []byte("Rep"), 1), ErrKey},
		{"revision 0", change(frameRevision, 0), ErrRevision},
		{"revision 3", change(frameRevision, 3), ErrRevision},
		{"private data of 516 bytes", change(framePDLength, 2), ErrPrivateData},
		{"private data of 65284 bytes", change(framePDLength, 0xff), ErrPrivateData},
		{"enhanced with 3 bytes", change(framePDLength+1, 3), ErrPrivateData},
	} {
		if _, n, err := DecodeFrame(Request, c.frame); !errors.Is(err, c.want) || n != 0 {
			t.Errorf("%s: took %d, %v; want %v", c.name, n, err, c.want)
		}
	}
}

// TestFrameReserved: bits that RFC 5044 reserves, of which Linux uses one,
// and S in a revision 1 frame mean nothing.
func TestFrameReserved(t *testing.T) {
	b, err := (&Frame{Revision: Revision1, PrivateData: []byte{1, 2, 3}}).Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	b[frameFlags] = flagEnhanced | 0x0f
	f, _, err := DecodeFrame(Request, b)
	if err != nil || f.Enhanced || !bytes.Equal(f.PrivateData, []byte{1, 2, 3}) {
		t.Errorf("decoded %+v, %v", f, err)
	}
}

func TestDepthUnknown(t *testing.T) {
	e := decodeEnhanced([]byte{0xff, 0xff, 0x3f, 0xff})
	want := Enhanced{IRD: MaxDepth, ORD: MaxDepth, PeerToPeer: true, RTR: RTRSend}
	if e != want {
		t.Errorf("decoded %+v, want %+v", e, want)
	}
	if b := (Enhanced{IRD: 0xffff, ORD: 0xffff}).Append(nil); !bytes.Equal(b, []byte{0x3f, 0xfe, 0x3f, 0xfe}) {
		t.Errorf("depths over the limit became %x", b)
	}
}

func TestChoose(t *testing.T) {
	for offered, want := range map[RTR]RTR{
		0:                            RTRWrite,
		RTRSend:                      RTRSend,
		RTRSend | RTRRead:            RTRRead,
		RTRSend | RTRWrite | RTRRead: RTRWrite,
	} {
		if got := offered.Choose(); got != want {
			t.Errorf("of %b chose %b, want %b", offered, got, want)
		}
	}
}

// TestTranscripts decodes frames seen on the wire and encodes them again.
func TestTranscripts(t *testing.T) {
	for name, want := range map[string]Frame{
		// The kernel NFS client: 128 Reads, none of its own, no RTR.
		"siw-request.hex": {
			Kind: Request, Revision: Revision2, Enhanced: true, EnhancedData: Enhanced{IRD: 128},
			PrivateData: []byte{0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3},
		},
		"v1-reject.hex": {Kind: Reply, Revision: Revision1, Reject: true, PrivateData: []byte("no")},
		"p2p-reply.hex": {
			Kind: Reply, Revision: Revision2, Enhanced: true, CRC: true,
			EnhancedData: Enhanced{IRD: 16, ORD: 8, PeerToPeer: true, RTR: RTRWrite}, PrivateData: []byte{},
		},
	} {
		wire := readHex(t, name)
		f, n, err := DecodeFrame(want.Kind, wire)
		if err != nil || n != len(wire) || !reflect.DeepEqual(f, want) {
			t.Errorf("%s: decoded %+v from %d of %d bytes, %v", name, f, n, len(wire), err)
		}
		if b, err := want.Append(nil); err != nil || !bytes.Equal(b, wire) {
			t.Errorf("%s: encoded %x, %v", name, b, err)
		}
	}
}

// readHex reads a file of hexadecimal bytes; # starts a comment.
func readHex(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var digits strings.Builder
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		digits.WriteString(strings.Join(strings.Fields(line), ""))
	}
	b, err := hex.DecodeString(digits.String())
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return b
}

func FuzzDecodeFrame(f *testing.F) {
	for _, name := range []string{"siw-request.hex", "v1-reject.hex", "p2p-reply.hex"} {
		b := readHex(f, name)
		f.Add(b, strings.Contains(string(b), "Rep"))
	}
	f.Fuzz(func(t *testing.T, b []byte, reply bool) {
		kind := Request
		if reply {
			kind = Reply
		}
		frame, n, err := DecodeFrame(kind, b)
		if err != nil {
			return
		}
		if n > len(b) || n > FrameHeaderSize+MaxPrivateData || n != frame.Size() {
			t.Fatalf("took %d of %d bytes for %d", n, len(b), frame.Size())
		}
		again, err := frame.Append(nil)
		if err != nil {
			t.Fatal(err)
		}
		// What is reserved or unknown is not kept; the rest must be.
		twice, _, err := DecodeFrame(kind, again)
		if err != nil || !reflect.DeepEqual(frame, twice) {
			t.Fatalf("decoded %+v, then %+v, %v", frame, twice, err)
		}
	})
}

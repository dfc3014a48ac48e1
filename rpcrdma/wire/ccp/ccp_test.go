package ccp

import (
	"bytes"
	"errors"
	"testing"
)

var (
	args  = Args{MaxCall: 4096, MaxReply: 0x10203040, MaxReads: 128}
	reply = Reply{MaxCall: 8192, Align: 512, MaxReads: 0xffffffff}
)

func TestLayout(t *testing.T) {
	want := []byte{0, 0, 16, 0, 16, 32, 48, 64, 0, 0, 0, 128}
	if got := args.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("arguments %x, want %x", got, want)
	}
	want = []byte{0, 0, 32, 0, 0, 0, 2, 0, 255, 255, 255, 255}
	if got := reply.Append(nil); !bytes.Equal(got, want) {
		t.Errorf("reply %x, want %x", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	var a Args
	var r Reply
	if err := errors.Join(a.Decode(args.Append(nil)), r.Decode(reply.Append(nil))); err != nil || a != args || r != reply {
		t.Errorf("%+v, %+v, %v", a, r, err)
	}
}

func TestLengths(t *testing.T) {
	b := append(args.Append(nil), 0, 0, 0, 0)
	for n := range len(b) + 1 {
		var a Args
		var r Reply
		want := error(nil)
		if n != Size {
			want = ErrMalformed
		}
		if err := a.Decode(b[:n]); !errors.Is(err, want) {
			t.Errorf("arguments of %d bytes: %v", n, err)
		}
		if err := r.Decode(b[:n]); !errors.Is(err, want) {
			t.Errorf("reply of %d bytes: %v", n, err)
		}
	}
}

// FuzzDecode: what decodes encodes to the same bytes.
func FuzzDecode(f *testing.F) {
	f.Add(args.Append(nil))
	f.Add(reply.Append(nil))
	f.Add([]byte{})
	f.Add(append(args.Append(nil), 0))
	f.Fuzz(func(t *testing.T, b []byte) {
		var a Args
		var r Reply
		errA, errR := a.Decode(b), r.Decode(b)
		if (errA == nil) != (len(b) == Size) || (errR == nil) != (len(b) == Size) {
			t.Fatalf("%d bytes: %v, %v", len(b), errA, errR)
		}
		if errA == nil && (!bytes.Equal(a.Append(nil), b) || !bytes.Equal(r.Append(nil), b)) {
			t.Fatalf("%x comes back as %x, %x", b, a.Append(nil), r.Append(nil))
		}
	})
}

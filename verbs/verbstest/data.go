package verbstest

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"

	"github.com/rdmad/rdmad/verbs"
)

// Fill writes bytes that depend on seed and on their position, so that misplaced data is
// detected.
func Fill(b []byte, seed uint64) {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	const block = 4096
	_, _ = rand.NewChaCha8(key).Read(b[:min(block, len(b))])
	for n := block; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
	for n := block; n+8 <= len(b); n += block {
		binary.LittleEndian.PutUint64(b[n:], seed^uint64(n))
	}
}

// filled returns n such bytes.
func filled(n int, seed uint64) []byte {
	b := make([]byte, n)
	Fill(b, seed)
	return b
}

// sameBytes fails the test at the first byte that differs.
func sameBytes(t TB, what string, got, want []byte) {
	t.Helper()
	if bytes.Equal(got, want) {
		return
	}
	if len(got) != len(want) {
		t.Fatalf("%s: %d bytes, not %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: byte %d of %d is %#02x, not %#02x", what, i, len(got), got[i], want[i])
		}
	}
}

// Exchange moves data over a connection in every way and checks it. Both sides must have
// nothing outstanding, and 4 KiB of buffer.
func (p *Pair) Exchange(seed uint64) {
	p.A.t.Helper()
	p.A.talk(p.B, seed)
	p.B.talk(p.A, seed+1)
}

// talk sends, writes and reads.
func (s *Side) talk(to *Side, seed uint64) {
	t := s.t
	t.Helper()
	const n = 1000
	Fill(s.Bytes(0, n), seed)
	to.Receive(seed, 1000, n)
	s.Post(Write(seed+1, to.Remote(2000), s.SGE(0, n)), Send(seed+2, s.SGE(0, n)))
	s.Done(seed+1, verbs.WCRDMAWrite)
	s.Done(seed+2, verbs.WCSend)
	to.Got(seed, n)
	sameBytes(t, "sent", to.Bytes(1000, n), s.Bytes(0, n))
	sameBytes(t, "written", to.Bytes(2000, n), s.Bytes(0, n))
	s.Post(Read(seed+3, to.Remote(1500), s.SGE(3000, n)))
	if wc := s.Done(seed+3, verbs.WCRDMARead); wc.ByteLen != n {
		t.Fatalf("read of %d bytes: %d", n, wc.ByteLen)
	}
	sameBytes(t, "read", s.Bytes(3000, n), to.Bytes(1500, n))
}

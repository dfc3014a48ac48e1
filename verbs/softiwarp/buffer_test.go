package softiwarp

import (
	"os"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/offheap"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// TestBuffersAreCounted: memory that peers tie up, by the start of an FPDU or by not reading,
// counts toward the process's memory, is small, and is returned.
func TestBuffersAreCounted(t *testing.T) {
	const peers = 5 * keptBuffers // more than are kept, of the four sizes together
	before := offheap.Read()
	a := newArena(t, Config{})
	dev := a.near.qp.(*queuePair).dev
	var sides []*side
	within := func(regions int, most int64, what string) {
		t.Helper()
		for deadline := time.Now().Add(testTimeout); ; time.Sleep(time.Millisecond) {
			// Kept buffers are counted before all memory, so a buffer that is put away in between
			// counts as one in use.
			kept := keptBytes(&dev.buffers)
			now := offheap.Read()
			if now.Regions >= regions && now.Used-before.Used <= most+kept {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v, %+v before, %d bytes kept; want %d regions, and at most %d bytes more", what, now, before, kept, regions, most+kept)
			}
		}
	}
	held := func(want int32) {
		t.Helper()
		n := &dev.held
		for deadline := time.Now().Add(testTimeout); n.Load() != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%d connections keep a large buffer, want %d", n.Load(), want)
			}
		}
	}
	for range peers {
		p, s := a.attach(rawRequest())
		s.recv(verbs.RecvWR{})
		p.message(rdmap.Send, 1, nil)
		s.succeed(1)
		p.write([]byte{0, 100, 0x41})
		sides = append(sides, s)
	}
	within(peers, int64(peers*4<<10+heldBuffers*bufferSize), "the start of an FPDU")
	held(heldBuffers)
	large := make([]byte, 16<<20)
	for _, s := range sides {
		s.send(verbs.SendWR{SGL: sge(s.region(large, 0), 0, len(large))})
	}
	within(2*peers, int64(peers*(4<<10+wholePages(batchSize))+heldBuffers*bufferSize), "what is not read")
	for _, s := range sides {
		_ = s.qp.Close()
	}
	within(0, 0, "afterwards")
	held(0)
}

// keptBytes returns the memory of the unused buffers that are kept.
func keptBytes(s *buffers) (n int64) {
	for i := range s {
		for j := range s[i].kept {
			if s[i].kept[j].Load() != nil {
				n += int64(wholePages(s[i].size))
			}
		}
	}
	return n
}

// wholePages returns n in whole pages.
func wholePages(n int) int { page := os.Getpagesize(); return (n + page - 1) / page * page }

// TestRestIsNotCopied: what a peer has not read when its connection ends stays in the buffer that
// is counted, and is given back when the peer's time is over.
func TestRestIsNotCopied(t *testing.T) {
	var s buffers
	s.init()
	defer s.close()
	b := s.get(bufferSize)
	q := &queuePair{goodbye: &rdmap.Term{Fault: rdmap.LocalCatastrophic}}
	q.tx.sock.leftover = leftover{left: b, from: 1000, to: bufferSize}
	rest, last := q.lastWords()
	if got := rest.pending(); rest.left != b || len(got) != bufferSize-1000 || &got[0] != &b.mem[1000] || len(last) == 0 {
		t.Errorf("%d bytes are left, not in their buffer; %d bytes of a Terminate", len(got), len(last))
	}
	if q.tx.sock.left != nil {
		t.Error("the buffer has two owners")
	}
	rest.discard()
	q.tx.sock.left, q.txErr = s.get(bufferSize), errMidFPDU
	if rest, last := q.lastWords(); rest.left != nil || q.tx.sock.left != nil || len(last) > 0 {
		t.Error("a socket that has failed still gets bytes")
	}
}

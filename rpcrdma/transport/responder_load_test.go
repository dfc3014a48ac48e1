package transport

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestQueueing: the wait for memory and for a worker counts. The time of RDMA
// Reads, of the call and of those before it, does not. A slot that is used again
// starts anew.
func TestQueueing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q queueing
		waited := func(chunks, late bool) time.Duration {
			if chunks {
				q = queueing{}
				time.Sleep(7 * time.Second) // for Reads before it
				if late {
					q.lacks()
				}
				time.Sleep(3 * time.Second) // for memory, if late
				q.reads()
				time.Sleep(50 * time.Second) // for the RDMA Reads
			}
			q.delivered(time.Now(), chunks)
			time.Sleep(2 * time.Second) // for a worker
			return time.Since(q.ready)
		}
		for _, c := range []struct {
			chunks, late bool
			want         time.Duration
		}{
			{false, false, 2 * time.Second},
			{true, true, 5 * time.Second},
			{true, false, 2 * time.Second},
			{true, true, 5 * time.Second},
			{false, false, 2 * time.Second},
		} {
			if got := waited(c.chunks, c.late); got != c.want {
				t.Errorf("chunks %v, late %v: %v, want %v", c.chunks, c.late, got, c.want)
			}
		}
	})
}

// TestQueueingBehindOthers: nor does the time count that a call waits for the Reads of others after it
// has waited for memory.
func TestQueueingBehindOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c call
		c.late()
		time.Sleep(3 * time.Second)
		c.behind()
		time.Sleep(7 * time.Second)
		c.late()
		time.Sleep(2 * time.Second)
		c.reading()
		c.queueing.delivered(time.Now(), true)
		if d := time.Since(c.queueing.ready); d != 5*time.Second {
			t.Errorf("waited %v", d)
		}
	})
}

package transport

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/verbs"
)

// slots is a send queue that checks its bounds and completes on demand. Slots
// of unsignaled requests come free with a later signaled one.
type slots struct {
	t     *rapid.T
	depth int
	out   []verbs.SendWR
}

// move takes what is in line.
func (s *slots) move(l *line) {
	s.out = append(s.out, l.next...)
	l.next = l.next[:0]
	if len(s.out) > s.depth {
		s.t.Fatalf("%d requests in %d slots", len(s.out), s.depth)
	}
}

// complete completes the oldest signaled request; false when there is none.
func (s *slots) complete() bool {
	for i := range s.out {
		if s.out[i].Flags&verbs.SendSignaled != 0 {
			s.out = s.out[i+1:]
			return true
		}
	}
	return false
}

// TestSendQueue: chains of any length go through a queue of any depth, in
// order; each ends once, after its last request; there is always a completion
// to wait for when something has to wait, or something is held beyond the bounds;
// after a flush there is one for everything.
func TestSendQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		qp := &slots{t: t, depth: rapid.IntRange(1, 40).Draw(t, "depth")}
		q := &sendQueue{depth: qp.depth}
		mostReads := qp.depth
		if rapid.Bool().Draw(t, "limited") {
			mostReads = rapid.IntRange(1, 40).Draw(t, "reads")
			q.limitReads(uint32(mostReads))
		}
		var waiting []*op // not ended, in order
		next := 0
		pump := func() {
			for q.pending.len() > 0 {
				o := q.pending.peek()
				whole := q.post(o)
				qp.move(&q.line)
				if !whole {
					return
				}
				q.pending.pop()
			}
		}
		complete := func() {
			for _, o := range q.completed(nil) {
				if o.slot != waiting[0].slot {
					t.Fatalf("op %d ends before %d", o.slot, waiting[0].slot)
				}
				waiting = waiting[1:]
				q.recycle(o)
			}
			pump()
		}
		unsignaled := func() (ops, held int) {
			for i := len(waiting) - 1; i >= 0; i-- {
				o := waiting[i]
				if o.posted == 0 {
					continue
				}
				if o.wrs[o.posted-1].Flags&verbs.SendSignaled != 0 {
					break
				}
				ops, held = ops+1, held+o.held
			}
			return ops, held
		}
		t.Repeat(map[string]func(*rapid.T){
			"submit": func(t *rapid.T) {
				o := q.newOp(opAnswer, next)
				waiting = append(waiting, o)
				next++
				o.wrs = make([]verbs.SendWR, rapid.IntRange(1, 60).Draw(t, "length"))
				for i := range o.wrs {
					if o.wrs[i].Op = verbs.OpSend; rapid.IntRange(0, 3).Draw(t, "read") == 0 {
						o.wrs[i].Op = verbs.OpRDMARead
					}
				}
				o.held = rapid.IntRange(0, 40<<10).Draw(t, "held")
				o.signal = rapid.IntRange(0, 3).Draw(t, "signal") == 0 || !q.mayDetach(o)
				q.pending.push(o)
				pump()
				if o.signal = o.signal || o.posted < len(o.wrs); !o.signal {
					q.detach(o)
				}
			},
			"flush": func(t *rapid.T) {
				o := q.flush()
				if o == nil {
					return
				}
				o.slot = next
				waiting = append(waiting, o)
				next++
				q.pending.push(o)
				pump()
				if n, _ := unsignaled(); n > 0 || q.signals == 0 {
					t.Fatalf("flushed: %d wait for nothing", n)
				}
			},
			"complete": func(t *rapid.T) {
				if qp.complete() {
					complete()
				}
			},
			"": func(t *rapid.T) {
				if q.used != len(qp.out) {
					t.Fatalf("%d slots counted, %d used", q.used, len(qp.out))
				}
				signaled, reads := 0, 0
				for _, w := range qp.out {
					if w.Op == verbs.OpRDMARead {
						reads++
					}
					if w.Flags&verbs.SendSignaled != 0 {
						signaled++
					}
				}
				if signaled != q.signals || (!q.idle() && signaled == 0) {
					t.Fatalf("%d signaled, %d counted, idle %v", signaled, q.signals, q.idle())
				}
				if reads > mostReads {
					t.Fatalf("%d RDMA Reads, %d allowed", reads, mostReads)
				}
				if n, held := unsignaled(); n != q.unsigned || held != q.unsignedBytes || n >= signalEvery || held > signalBytes {
					t.Fatalf("%d ops with %d bytes wait for nothing; counted %d with %d", n, held, q.unsigned, q.unsignedBytes)
				}
				detached := 0
				for _, o := range waiting {
					if o.detached {
						detached += o.held
					}
				}
				if detached != q.detachedBytes || detached > detachBytes {
					t.Fatalf("%d bytes detached, %d counted", detached, q.detachedBytes)
				}
			},
		})
		for qp.complete() {
			complete()
		}
		if !q.idle() || len(waiting) >= signalEvery {
			t.Fatalf("%d ops never end", len(waiting))
		}
	})
}

func TestStalled(t *testing.T) {
	q := &sendQueue{depth: 10}
	send := func(signal bool) {
		o := q.newOp(opAnswer, 0)
		o.wrs, o.signal = make([]verbs.SendWR, 1), signal
		if !q.post(o) {
			t.Fatal("not posted whole")
		}
	}
	quiet := func(ticks int) {
		t.Helper()
		for i := range ticks {
			if q.stalled() {
				t.Fatalf("stalled after %d ticks", i+1)
			}
		}
	}
	quiet(100)
	send(false) // nothing is due
	quiet(100)
	send(true)
	quiet(stallTicks)
	q.completed(nil)
	quiet(100)
	send(true)
	quiet(stallTicks)
	if !q.stalled() {
		t.Error("not stalled")
	}
}

package rpcrdma_test

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// seen is a copy of an Operation.
type seen struct {
	op   verbs.Opcode
	in   bool
	rkey uint32
	addr uint64
	data []byte
}

func (s seen) String() string {
	way := "out"
	if s.in {
		way = "in"
	}
	switch s.op {
	case verbs.OpRDMARead:
		return "read " + way
	case verbs.OpRDMAWrite:
		return "write " + way
	}
	return "send " + way
}

// looker keeps what it sees.
type looker struct {
	t     *testing.T
	mu    sync.Mutex
	all   []seen
	grown sync.Cond
}

func newLooker(t *testing.T) *looker {
	l := &looker{t: t}
	l.grown.L = &l.mu
	return l
}

func (l *looker) Observe(o *rpcrdma.Operation) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := seen{op: o.Op, in: o.In, rkey: o.RKey, addr: o.Addr, data: bytes.Join(o.Data, nil)}
	if o.Length != len(s.data) {
		l.t.Errorf("%v: length %d of %d bytes", s, o.Length, len(s.data))
	}
	l.all = append(l.all, s)
	l.grown.Broadcast()
}

// answer gives what was seen since the last time, up to a Send out, which a
// caller may hear of sooner than an observer.
func (l *looker) answer() []seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.all) == 0 || l.all[len(l.all)-1].String() != "send out" {
		l.grown.Wait()
	}
	all := l.all
	l.all = nil
	return all
}

// take gives what was seen since the last time.
func (l *looker) take() []seen {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// TestTapSeesEverything compares what an observer sees of a call with the
// call: the messages, and the data that went by RDMA, under the keys and at
// the addresses that the call offered.
func TestTapSeesEverything(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		var tap rpcrdma.Tap
		look := newLooker(t)
		b := newBed(t, p, bedConfig{tap: &tap})
		c, _ := b.dial(nil)
		tap.Set(look)
		const n = 100_000
		data := make([]byte, n)
		pattern(data, 1)
		for _, tc := range []struct {
			name string
			proc uint32
			want []string
		}{
			{"inline", procEcho, []string{"send in", "send out"}},
			{"write chunk", procRead, []string{"send in", "write out", "send out"}},
			{"read chunk", procWrite, []string{"send in", "read in", "send out"}},
		} {
			call := prepared(t, c, b, tc.proc, n)
			if tc.proc == procEcho {
				call = prepared(t, c, b, tc.proc, 100)
			}
			for _, it := range call.Items {
				copy(it.Buf.Bytes(), data)
			}
			look.take()
			must(t, c.Call(b.ctx, call))
			all := look.answer()
			var got []string
			for _, s := range all {
				got = append(got, s.String())
			}
			if got = slices.Compact(got); !slices.Equal(got, tc.want) {
				t.Fatalf("%s: saw %q, want %q", tc.name, got, tc.want)
			}
			checkSeen(t, tc.name, all, data)
		}
		tap.Set(nil)
		must(t, echo(b.ctx, c, 100, 1))
		if all := look.take(); len(all) > 0 {
			t.Errorf("saw %v after the observer was taken away", all)
		}
	})
}

// checkSeen checks the operations of one call.
func checkSeen(t *testing.T, name string, all []seen, data []byte) {
	t.Helper()
	var first, last rpcrdma1.Header
	if _, err := first.Decode(all[0].data); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if _, err := last.Decode(all[len(all)-1].data); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if last.XID != first.XID {
		t.Errorf("%s: reply to %#x of call %#x", name, last.XID, first.XID)
	}
	var offered []rpcrdma1.Segment
	for _, r := range first.Reads {
		offered = append(offered, r.Segment)
	}
	for _, w := range first.Writes {
		offered = append(offered, w...)
	}
	var moved []byte
	for _, s := range all[1 : len(all)-1] {
		moved = append(moved, s.data...)
		if !slices.ContainsFunc(offered, func(o rpcrdma1.Segment) bool {
			return o.Handle == s.rkey && s.addr >= o.Offset && s.addr+uint64(len(s.data)) <= o.Offset+uint64(o.Length)
		}) {
			t.Errorf("%s: %v of %d bytes at %#x:%#x, offered were %+v", name, s, len(s.data), s.rkey, s.addr, offered)
		}
	}
	if len(all) > 2 && !bytes.Equal(moved, data) {
		t.Errorf("%s: %d bytes went by RDMA, not the %d that they should be", name, len(moved), len(data))
	}
	if s := all[len(all)-1]; s.op == verbs.OpSendInvalidate && !slices.ContainsFunc(offered, func(o rpcrdma1.Segment) bool { return o.Handle == s.rkey }) {
		t.Errorf("%s: invalidates %#x, offered were %+v", name, s.rkey, offered)
	}
}

// TestTapFromTheFirstMessage: an observer that is there before the connection
// misses nothing.
func TestTapFromTheFirstMessage(t *testing.T) {
	var tap rpcrdma.Tap
	look := newLooker(t)
	tap.Set(look)
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{tap: &tap})
	c, _ := b.dial(nil)
	must(t, echo(b.ctx, c, 10, 1))
	if got := fmt.Sprint(look.take()); got != "[send in send out]" {
		t.Errorf("saw %s", got)
	}
}

// discarding looks away.
type discarding struct{}

func (discarding) Observe(*rpcrdma.Operation) {}

// TestTapDoesNotAllocate: with an observer, calls cost no more memory than
// without (TestAllocations).
func TestTapDoesNotAllocate(t *testing.T) {
	var tap rpcrdma.Tap
	tap.Set(discarding{})
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: zero{}, tap: &tap, unjudged: true})
	c, _ := b.dial(nil)
	call := newCall(procEcho)
	call.Args = xdr.AppendOpaque(nil, make([]byte, 3000))
	call.MaxReply = len(call.Args)
	one := func() { must(t, c.Call(b.ctx, &call)) }
	for range 200 {
		one()
	}
	if n := testing.AllocsPerRun(500, one); n > 0 {
		t.Errorf("%v allocations per call", n)
	}
}

package rpcrdma_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// late is a service that takes a time, except for NULL.
type late struct {
	zero
	time time.Duration
}

func (l late) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Procedure != procNull {
		time.Sleep(l.time)
	}
	return l.zero.ServeRPC(ctx, c, r)
}

// slowCalls collects slow calls.
type slowCalls struct {
	limit atomic.Int64
	mu    sync.Mutex
	all   []rpcrdma.SlowCall
}

func newSlowCalls(limit time.Duration) *slowCalls {
	s := new(slowCalls)
	s.limit.Store(int64(limit))
	return s
}

func (s *slowCalls) config() rpcrdma.SlowCalls {
	return rpcrdma.SlowCalls{Limit: &s.limit, Report: func(c rpcrdma.SlowCall) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, c)
	}}
}

// take returns the calls so far, once, without what differs between runs.
func (s *slowCalls) take() []rpcrdma.SlowCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	for i := range all {
		all[i].XID, all[i].Arrived = 0, time.Time{}
	}
	return all
}

const (
	oneWay      = 10 * time.Millisecond
	serviceTime = 300 * time.Millisecond
)

// TestSlowCalls: a call that takes as long as the limit or longer is reported, with where its
// time went. Others are not.
func TestSlowCalls(t *testing.T) {
	const limit = 100 * time.Millisecond
	for name, tc := range map[string]struct {
		limit   time.Duration
		proc    uint32
		n       int
		version int
		want    rpcrdma.SlowCall
	}{
		"inline":        {limit, procEcho, 3000, 1, rpcrdma.SlowCall{Service: serviceTime, Completion: 2 * oneWay}},
		"read chunk":    {limit, procWrite, 1 << 16, 1, rpcrdma.SlowCall{Read: 2 * oneWay, Service: serviceTime, Completion: 2 * oneWay}},
		"write chunk":   {limit, procRead, 1 << 16, 1, rpcrdma.SlowCall{Service: serviceTime, Completion: 2 * oneWay}},
		"long call":     {limit, procEcho, 1 << 15, 1, rpcrdma.SlowCall{Read: 2 * oneWay, Service: serviceTime, Completion: 2 * oneWay}},
		"transmissions": {limit, procEcho, 1 << 13, 2, rpcrdma.SlowCall{Service: serviceTime, Completion: 2 * oneWay}},
		"fast":          {limit, procNull, 0, 1, rpcrdma.SlowCall{}},
		"read, slow":    {serviceTime + 2*oneWay, procWrite, 1 << 16, 1, rpcrdma.SlowCall{Read: 2 * oneWay, Service: serviceTime, Completion: 2 * oneWay}},
		"large reply":   {serviceTime + 2*oneWay, procRead, 1 << 20, 1, rpcrdma.SlowCall{Service: serviceTime, Completion: 2 * oneWay}},
		"just":          {serviceTime, procEcho, 10, 1, rpcrdma.SlowCall{Service: serviceTime, Completion: 2 * oneWay}},
		"just not":      {serviceTime + 1, procEcho, 10, 1, rpcrdma.SlowCall{}},
		"off":           {0, procEcho, 10, 1, rpcrdma.SlowCall{}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := newSlowCalls(tc.limit)
				fabric := loopback.FabricConfig{Transport: loopback.InfiniBand, Delay: oneWay}
				version := func(*rpcrdma.Settings) {}
				if tc.version == 2 {
					version = speakingWith(continuation)
				}
				b := newBed(t, loopback.New(loopback.Config{Network: fabric}), bedConfig{
					handler: late{time: serviceTime}, slow: slow.config(), timeout: time.Hour, unjudged: true, settings: version,
				})
				c, _ := b.dial(version)
				// Both agree on a version.
				must(t, c.Call(b.ctx, prepared(t, c, b, procNull, 0)))
				for range 2 { // a call's storage is used again
					call := prepared(t, c, b, tc.proc, tc.n)
					if tc.n > 1<<12 && tc.proc == procEcho {
						call.Args = xdr.AppendOpaque(nil, make([]byte, tc.n))
					}
					must(t, c.Call(b.ctx, call))
					time.Sleep(time.Second)
					want := tc.want
					if want == (rpcrdma.SlowCall{}) {
						if got := slow.take(); len(got) != 0 {
							t.Errorf("reported %+v", got)
						}
						continue
					}
					want.Program, want.Version, want.Procedure = call.Program, call.Version, call.Procedure
					want.Took = want.Receive + want.Read + want.Service + want.Post + want.Completion
					if got := slow.take(); len(got) != 1 || got[0] != want {
						t.Errorf("reported %+v, want %+v", got, want)
					}
				}
			})
		})
	}
}

// TestSlowCallWaits: a call that waits for the memory of others spends the time in Receive.
func TestSlowCallWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowCalls(serviceTime + 10*time.Millisecond)
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: late{time: serviceTime}, slow: slow.config(), timeout: time.Hour, unjudged: true})
		c, _ := b.dial(nil)
		// A slow call first, so that workers serve the next ones. Behind a call that the leader
		// serves, the others would wait until it loses the lead.
		for _, proc := range []uint32{procNull, procEcho} { // NULL grants credits
			must(t, c.Call(b.ctx, prepared(t, c, b, proc, 0)))
		}
		synctest.Wait()
		slow.take()
		var calls sync.WaitGroup
		for range 18 { // 17 MiB of chunks are read at a time
			call := prepared(t, c, b, procWrite, 1<<20)
			calls.Go(func() { should(t, c.Call(b.ctx, call)) })
		}
		calls.Wait()
		synctest.Wait() // a call is reported after its reply was sent
		got := slow.take()
		if len(got) != 1 || got[0].Receive < 10*time.Millisecond || got[0].Service != serviceTime || got[0].Took != got[0].Receive+serviceTime {
			t.Errorf("reported %+v", got)
		}
	})
}

// TestSlowCallLost: a call whose connection ends during its service is reported.
func TestSlowCallLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowCalls(serviceTime)
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: late{time: serviceTime}, slow: slow.config(), timeout: time.Hour, unjudged: true})
		c, conn := b.dial(nil)
		go func() { _ = c.Call(b.ctx, prepared(t, c, b, procEcho, 10)) }() // it fails
		time.Sleep(oneWay)
		c.Close()
		<-conn.Done()
		synctest.Wait()
		if got := slow.take(); len(got) != 1 || !got[0].Lost || got[0].Service != serviceTime || got[0].Took != serviceTime {
			t.Errorf("reported %+v", got)
		}
	})
}

// TestSlowCallsDoNotAllocate: fast calls cost no more memory with a limit than without
// (TestAllocations).
func TestSlowCallsDoNotAllocate(t *testing.T) {
	slow := newSlowCalls(time.Hour)
	b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: zero{}, slow: slow.config(), unjudged: true})
	c, _ := b.dial(nil)
	call := prepared(t, c, b, procEcho, 3000)
	one := func() { must(t, c.Call(b.ctx, call)) }
	for range 200 {
		one()
	}
	if n := testing.AllocsPerRun(500, one); n > 0 {
		t.Errorf("%v allocations per call", n)
	}
}

// TestSlowCallsAfterBrokenGroup: a call that came before the end of a transmission group, and
// so ended it, began when it came itself.
func TestSlowCallsAfterBrokenGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowCalls(oneWay)
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{
			handler: late{time: serviceTime}, slow: slow.config(), timeout: time.Hour, unjudged: true, settings: speakingWith(continuation),
		})
		r := b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil))
		r.post(null2(1))
		r.rejoin()
		r.post(asGroup(2, rpcrdma2.XmtReq{}, rpcCall(2, procEcho, make([]byte, 400)), 200)[0])
		time.Sleep(time.Second)
		r.post(null2(3))
		for _, want := range []answer{{2, "XMTERR 1"}, {3, "reply"}} {
			if xid, what, _ := r.rejoin(); xid != want.xid || what != want.what {
				t.Fatalf("%s for %d, want %s for %d", what, xid, want.what, want.xid)
			}
		}
		time.Sleep(time.Second)
		if got := slow.take(); len(got) != 0 {
			t.Errorf("reported %+v", got)
		}
	})
}

// TestSlowCallInTransmissions: the time until the last transmission of a call has come is not
// that of RDMA Reads.
func TestSlowCallInTransmissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newSlowCalls(oneWay)
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{
			handler: zero{}, slow: slow.config(), timeout: time.Hour, unjudged: true, settings: speakingWith(continuation),
		})
		r := b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil))
		r.post(null2(1))
		r.rejoin()
		group := asGroup(2, rpcrdma2.XmtReq{}, rpcCall(2, procNull, nil), 20)
		r.post(group[0])
		time.Sleep(time.Second)
		r.post(group[1])
		if xid, what, _ := r.rejoin(); xid != 2 || what != "reply in 1" {
			t.Fatalf("%s for %d", what, xid)
		}
		time.Sleep(time.Second)
		if got := slow.take(); len(got) != 1 || got[0].Receive != time.Second || got[0].Read != 0 || got[0].Took != time.Second {
			t.Errorf("reported %+v", got)
		}
	})
}

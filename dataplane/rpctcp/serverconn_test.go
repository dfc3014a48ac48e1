package rpctcp

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// kept returns how many calls the server's connections keep, besides the one that each reads
// next, and the bytes of their storage.
func (ts *testServer) kept() (calls, bytes int) {
	for _, c := range ts.openConns() {
		c.mu.Lock()
		calls += len(c.idle)
		for _, cl := range c.idle {
			bytes += cap(cl.own) + cap(cl.reply.Stream)
		}
		c.mu.Unlock()
	}
	return calls, bytes
}

// streams answers every call with a stream of 48 KiB. Calls of procedure 2 first wait until
// they may.
type streams struct {
	blob [48 << 10]byte
	may  chan struct{}
}

func (s *streams) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	if c.Procedure == 2 {
		<-s.may
	}
	r.Stream = append(r.Stream, s.blob[:]...)
	return nil
}

// TestIdleConnectionMemory: a connection without calls keeps no storage of long replies,
// because no pool counts it. Calls that follow each other use the memory of one.
func TestIdleConnectionMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := &streams{may: make(chan struct{})}
		l := newPipeListener()
		ts := startServer(t, Config{Handler: handler}, l)
		c := NewClient(l.dial(t), ClientConfig{})
		defer c.Close()
		call := func(proc uint32) {
			if _, err := c.Call(t.Context(), 1, 1, proc, nil, nil); err != nil {
				t.Error(err)
			}
		}
		for range 2 * DefaultMaxCalls {
			call(1)
			synctest.Wait()
		}
		if calls, bytes := ts.kept(); calls != 0 || bytes != 0 {
			t.Errorf("after calls one after the other, %d calls keep %d bytes", calls, bytes)
		}
		var wg sync.WaitGroup
		for range DefaultMaxCalls {
			wg.Go(func() { call(2) })
		}
		time.Sleep(time.Second) // the goroutine that reads serves one of them until it loses the lead
		close(handler.may)
		wg.Wait()
		synctest.Wait()
		if calls, bytes := ts.kept(); calls != DefaultMaxCalls-1 || bytes > calls*keepSmall {
			t.Errorf("after calls at one time, %d calls keep %d bytes", calls, bytes)
		}
		if n := len(ts.spares.free); n != mostSpares {
			t.Errorf("%d spares for the next calls, want %d", n, mostSpares)
		}
	})
}

// TestLongStreamAllocations: long replies that follow each other cost no allocation, although
// their storage does not stay with the connection.
func TestLongStreamAllocations(t *testing.T) {
	s := startTCP(t, Config{Handler: new(streams)})
	c := s.dial(t, ClientConfig{})
	into := make([]byte, 64<<10)
	var err error
	do := func() {
		if _, e := c.Call(t.Context(), 1, 1, 1, nil, into); e != nil {
			err = e
		}
	}
	for range 2 * DefaultMaxCalls {
		do()
	}
	if allocs := testing.AllocsPerRun(200, do); allocs > 0 || err != nil {
		t.Errorf("%v allocations, want none; %v", allocs, err)
	}
}

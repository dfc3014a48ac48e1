package rpctcp

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/clients"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/slow"
)

// slowCalls collects slow calls.
type slowCalls struct {
	limit atomic.Int64
	mu    sync.Mutex
	all   []slow.Call
}

func newSlowCalls(limit time.Duration) *slowCalls {
	s := new(slowCalls)
	s.limit.Store(int64(limit))
	return s
}

func (s *slowCalls) of(netip.AddrPort) slow.Calls {
	return slow.Calls{Limit: &s.limit, Report: func(c slow.Call) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.all = append(s.all, c)
	}}
}

// take returns the calls so far, once, without the time of their arrival.
func (s *slowCalls) take() []slow.Call {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.all
	s.all = nil
	for i := range all {
		all[i].Arrived = time.Time{}
	}
	return all
}

// TestSlowCalls: calls that take as long as the limit or longer are reported, with where their
// time went. Others are not.
func TestSlowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const (
			serving  = time.Second
			upstream = 300 * time.Millisecond
		)
		late := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
			if c.Procedure == echo.ProcEcho {
				time.Sleep(serving)
				r.Upstream = upstream
			}
			return echo.New().ServeRPC(ctx, c, r)
		})
		found := newSlowCalls(serving)
		table := clients.New(1)
		s, l := pipeServer(t, Config{Handler: late, SlowCalls: found.of, Clients: table})
		nc := l.dial(t)
		replies := oncrpc.NewRecordReader(nc, 1<<20)
		want := func(what string, calls ...slow.Call) {
			t.Helper()
			got := found.take()
			if len(got) != len(calls) {
				t.Fatalf("%s: %+v", what, got)
			}
			for i, c := range calls {
				c.Program, c.Version = echo.Program, echo.Version
				if got[i] != c {
					t.Errorf("%s: got %+v, want %+v", what, got[i], c)
				}
			}
		}
		write := func(b []byte) {
			t.Helper()
			if _, err := nc.Write(b); err != nil {
				t.Fatal(err)
			}
		}

		write(record(1, echo.ProcNull, nil))
		readRecord(t, replies)
		want("a fast one")

		write(record(2, echo.ProcEcho, opaque(100)))
		readRecord(t, replies)
		want("the service", slow.Call{XID: 2, Procedure: echo.ProcEcho, Took: serving, Service: serving, Upstream: upstream})

		b := record(3, echo.ProcNull, nil)
		write(b[:10])
		time.Sleep(2 * time.Second)
		write(b[10:])
		readRecord(t, replies)
		want("a client that sends slowly", slow.Call{XID: 3, Took: 2 * time.Second, Receive: 2 * time.Second})

		write(record(4, echo.ProcNull, nil))
		synctest.Wait() // its reply is the first
		write(record(5, echo.ProcNull, nil))
		time.Sleep(3 * time.Second)
		readRecord(t, replies)
		readRecord(t, replies)
		want("a client that reads slowly",
			slow.Call{XID: 4, Took: 3 * time.Second, Completion: 3 * time.Second},
			slow.Call{XID: 5, Took: 3 * time.Second, Post: 3 * time.Second})

		found.limit.Store(0)
		write(record(6, echo.ProcEcho, opaque(100)))
		readRecord(t, replies)
		want("while nothing is measured")

		found.limit.Store(1)
		write(record(7, echo.ProcEcho, opaque(100)))
		time.Sleep(serving / 2)
		nc.Close()
		time.Sleep(serving)
		want("a client that goes", slow.Call{XID: 7, Procedure: echo.ProcEcho, Took: serving, Service: serving, Upstream: upstream, Lost: true})
		if list, _, _ := table.List(0); list[0].Time != 3*serving {
			t.Errorf("the client's time: %+v", list)
		}
		if n := s.Stats().Slow; n != 5 {
			t.Errorf("%d slow calls are counted", n)
		}
	})
}

// TestSlowCallsOfAPeer: calls are measured for the address of their client.
func TestSlowCallsOfAPeer(t *testing.T) {
	peers := make(chan netip.AddrPort, 1)
	s := startTCP(t, Config{Handler: echo.New(), SlowCalls: func(peer netip.AddrPort) slow.Calls {
		peers <- peer
		return slow.Calls{}
	}})
	nc, err := net.Dial("tcp", s.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if got := <-peers; got.String() != nc.LocalAddr().String() {
		t.Errorf("%v, want %v", got, nc.LocalAddr())
	}
}

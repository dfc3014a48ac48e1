package rpctcp

import (
	"io"
	"log/slog"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
)

// TestManyMountAtOnce: clients that make a call and leave, as those that mount do, are all
// served if they come at the same moment, however few places there are.
func TestManyMountAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New(), Places: places(t, connlimit.Limits{Total: 8})})
		var clients sync.WaitGroup
		for range 100 {
			clients.Go(func() {
				c := NewClient(l.dial(t), ClientConfig{})
				defer c.Close()
				if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
					t.Error(err)
				}
				time.Sleep(20 * time.Millisecond)
			})
		}
		clients.Wait()
		if got := s.Stats(); got.Accepted != 100 || got.Refused != (connlimit.Counts{}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestRefusedCostLittle: a connection without a place gets no buffer, nor anything else that only
// one with a place needs.
func TestRefusedCostLittle(t *testing.T) {
	l := newPipeListener()
	startServer(t, Config{Handler: echo.New(), Places: places(t, connlimit.Limits{PerKey: 1}), Logger: slog.New(slog.DiscardHandler)}, l)
	first := NewClient(l.dial(t), ClientConfig{})
	defer first.Close()
	if _, err := echoCall(t.Context(), first, echo.ProcNull, nil); err != nil {
		t.Fatal(err)
	}
	const n = 100
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range n {
		_, _ = io.Copy(io.Discard, l.dial(t))
	}
	runtime.ReadMemStats(&after)
	if each := (after.TotalAlloc - before.TotalAlloc) / n; each >= readBuffer/2 {
		t.Errorf("%d bytes for each", each)
	}
}

// TestNobodyLeaves: if all places stay in use, one newcomer waits in vain, and the next ones do not
// wait until a connection ends.
func TestNobodyLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New(), Places: places(t, connlimit.Limits{Total: 2})})
		call := func() (*Client, error) {
			c := NewClient(l.dial(t), ClientConfig{})
			t.Cleanup(func() { c.Close() })
			_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
			return c, err
		}
		began := time.Now()
		first, err := call()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := call(); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			if _, err := call(); err == nil {
				t.Error("a newcomer is served although all places are in use")
			}
		}
		if waited := time.Since(began); waited != enterPatience {
			t.Errorf("newcomers waited %v", waited)
		}
		if got := s.Stats().Refused[connlimit.Total]; got != 10 {
			t.Errorf("%d are refused", got)
		}
		first.Close()
		synctest.Wait()
		if _, err := call(); err != nil {
			t.Errorf("when there is a place: %v", err)
		}
	})
}

// addressed is a connection from an address.
type addressed struct {
	net.Conn
	from net.Addr
}

func (c addressed) RemoteAddr() net.Addr { return c.from }

// TestNewcomersOfOneAddress: newcomers of an address that has many connections do not wait. So a
// client of another address, which has a right to a place, does not wait behind them.
func TestNewcomersOfOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := pipeServer(t, Config{Handler: echo.New(), Places: places(t, connlimit.Limits{Total: enterOwn})})
		call := func(host byte) error {
			near, far := net.Pipe()
			l.conns <- addressed{far, &net.TCPAddr{IP: net.IPv4(192, 0, 2, host), Port: 1}}
			c := NewClient(near, ClientConfig{})
			t.Cleanup(func() { c.Close() })
			_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
			return err
		}
		for i := range enterOwn {
			if err := call(1); err != nil {
				t.Errorf("connection %d: %v", i, err)
			}
		}
		time.Sleep(connlimit.Grace / 2) // of synctest: long enough to give a place to those that have few
		began := time.Now()
		for range 10 {
			if call(1) == nil {
				t.Error("a newcomer of the first address is served")
			}
		}
		if err := call(2); err != nil {
			t.Errorf("a client of another address: %v", err)
		}
		if waited := time.Since(began); waited != 0 {
			t.Errorf("it waited %v", waited)
		}
	})
}

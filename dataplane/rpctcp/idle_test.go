package rpctcp

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// TestIdleMemory: a buffer that is used now and then stays. Unused buffers go back
// to the operating system.
func TestIdleMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPool(8<<20, 1<<20)
		defer p.close()
		before := offheap.Read().Used
		used := func() int64 { return offheap.Read().Used - before }
		account := p.join(netip.Addr{})
		a, b := got(t, account, 1<<20), got(t, account, 1<<20)
		a.Release()
		b.Release()
		if used() != 2<<20 {
			t.Errorf("%d bytes", used())
		}
		for range 8 { // one of the two is in use
			time.Sleep(idleTime / 2)
			if c := got(t, account, 1<<20); c != b {
				t.Error("not the buffer used last")
			} else {
				c.Release()
			}
		}
		if used() != 1<<20 {
			t.Errorf("%d bytes after a time with one buffer", used())
		}
		time.Sleep(3 * idleTime)
		synctest.Wait()
		if used() != 0 || p.idle.kept != 0 {
			t.Errorf("%d bytes after a time without, %d kept", used(), p.idle.kept)
		}
	})
}

// got takes a buffer.
func got(t *testing.T, a *account, n int) *buffer {
	t.Helper()
	b, err := a.get(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestGivesToWaiting: a buffer that is released goes to those who wait for memory of the process.
func TestGivesToWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + 1<<20)
		pool, others := newPool(8<<20, 1<<20), newPool(8<<20, 1<<20)
		defer pool.close()
		defer others.close()
		p, other := pool.join(netip.Addr{}), others.join(netip.Addr{})
		for name, holder := range map[string]*account{"the same pool": p, "another pool": other} {
			a := got(t, holder, 1<<20)
			freed := make(chan *buffer, 1)
			go func() {
				b, err := p.get(t.Context(), 1<<20)
				if err != nil {
					t.Error(err)
				}
				freed <- b
			}()
			synctest.Wait()
			a.Release()
			synctest.Wait()
			select {
			case b := <-freed:
				b.Release()
			default:
				t.Errorf("%s keeps what another call waits for", name)
				pool.idle.drain()
				others.idle.drain()
				(<-freed).Release()
			}
			pool.idle.drain()
			others.idle.drain()
		}
	})
}

// TestUnusedGoToWaiting: a pool gives up its unused memory when others wait for memory of the process.
func TestUnusedGoToWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + 1<<20)
		pool, others := newPool(8<<20, 1<<20), newPool(8<<20, 1<<20)
		defer pool.close()
		defer others.close()
		got(t, others.join(netip.Addr{}), 1<<20).Release()
		began := time.Now()
		got(t, pool.join(netip.Addr{}), 1<<20).Release()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("waited %v", waited)
		}
	})
}

// TestGaveUpWaiting: a caller that has given up does not count as waiting for memory of the process. Otherwise slow
// peers would be disconnected for it.
func TestGaveUpWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used)
		pool := newPool(8<<20, 1<<20)
		defer pool.close()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := pool.join(netip.Addr{}).get(ctx, 4096); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if n := offheap.Waiting(); n != 0 {
			t.Errorf("%d still wait", n)
		}
	})
}

// TestProcessLimit: a pool at the process's limit first gives back its idle
// buffers, and then waits as it does at its own limit.
func TestProcessLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + 2<<20)
		pool, others := newPool(8<<20, 1<<20), newPool(8<<20, 1<<20)
		defer pool.close()
		defer others.close()
		p, other := pool.join(netip.Addr{}), others.join(netip.Addr{})
		a := got(t, other, 1<<20)
		b := got(t, p, 1<<20)
		b.Release()
		for range 256 { // of another class, in the memory of the idle one
			defer got(t, p, 4096).Release()
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		result := make(chan error, 1)
		go func() {
			b, err := p.get(ctx, 1<<20)
			if err == nil {
				b.Release()
			}
			result <- err
		}()
		synctest.Wait()
		gone := errors.New("gone")
		cancel(gone)
		if err := <-result; !errors.Is(err, gone) {
			t.Errorf("with the process at its limit: %v", err)
		}
		go func() {
			b, err := p.get(t.Context(), 1<<20)
			if err == nil {
				b.Release()
			}
			result <- err
		}()
		synctest.Wait()
		a.Release()
		others.idle.drain()
		if err := <-result; err != nil {
			t.Errorf("after others have freed memory: %v", err)
		}
		if u := pool.fair.Usage(); u.Held != 256*4096 || u.Waiting != 0 {
			t.Errorf("%+v", u)
		}
	})
}

// TestSlowPeerAtProcessLimit: a peer that makes too little progress loses memory of the process for which
// others wait, also those of another service. Its own calls may wait for what it holds.
func TestSlowPeerAtProcessLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		_, l := pipeServer(t, Config{Handler: echo.New()})
		_, others := pipeServer(t, Config{Handler: echo.New()})
		read := xdr.AppendUint32(nil, size)
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + size + 64<<10)
		slow := l.dial(t)
		replies := oncrpc.NewRecordReader(slow, 2*size)
		for xid := range uint32(2) {
			if _, err := slow.Write(record(xid, echo.ProcRead, read)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		time.Sleep(2 * fair.Grace)
		for range 2 {
			readRecord(t, replies)
		}
		if _, err := slow.Write(record(2, echo.ProcRead, read)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c := NewClient(others.dial(t), ClientConfig{MaxRecord: 2 * size})
		defer c.Close()
		began := time.Now()
		if _, err := echoCall(t.Context(), c, echo.ProcRead, read); err != nil {
			t.Error(err)
		}
		if waited := time.Since(began); waited < fair.Grace || waited > 2*fair.Grace {
			t.Errorf("waited %v", waited)
		}
	})
}

// TestOthersHaveAll: while others have all memory of the process, calls are served one after the other.
func TestOthersHaveAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 20
		_, l := pipeServer(t, Config{Handler: echo.New()})
		defer offheap.SetLimit(math.MaxInt64)
		offheap.SetLimit(offheap.Read().Used + 8*size)
		for {
			others, err := offheap.Alloc(64 << 10)
			if err != nil {
				break
			}
			defer others.Free()
		}
		var calls sync.WaitGroup
		for range 3 {
			c := NewClient(l.dial(t), ClientConfig{MaxRecord: 2 * size})
			defer c.Close()
			for proc, args := range map[uint32][]byte{echo.ProcRead: xdr.AppendUint32(nil, size), echo.ProcWrite: opaque(size)} {
				calls.Go(func() {
					if _, err := echoCall(t.Context(), c, proc, args); err != nil {
						t.Error(err)
					}
				})
			}
		}
		calls.Wait()
	})
}

package connector

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/dataplane/nfs"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestBudget: who waits is served in turn, a large one before a small one that
// came later, and who gives up leaves no hole.
func TestBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(10)
		if err := b.acquire(t.Context(), 6); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []int64
		wait := func(ctx context.Context, n int64) {
			go func() {
				err := b.acquire(ctx, n)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					n = -n
				}
				order = append(order, n)
			}()
			synctest.Wait()
		}
		gone := errors.New("gone")
		ctx, cancel := context.WithCancelCause(t.Context())
		wait(ctx, 9)
		wait(t.Context(), 5)
		wait(t.Context(), 1)
		cancel(gone)
		synctest.Wait()
		b.release(6)
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if len(order) != 3 || order[0] != -9 || order[1]+order[2] != 6 || b.used() != 6 {
			t.Errorf("order %v, %d out", order, b.used())
		}
	})
}

// TestBudgetLimit: a limit that falls lets nobody starve, one that rises lets
// those go who wait.
func TestBudgetLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBudget(4)
		for range 4 {
			if err := b.acquire(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		b.setLimit(2)
		done := make(chan struct{})
		go func() {
			if err := b.acquire(t.Context(), 1); err != nil {
				t.Error(err)
			}
			close(done)
		}()
		synctest.Wait()
		b.release(2)
		synctest.Wait()
		select {
		case <-done:
			t.Error("over the limit")
		default:
		}
		b.setLimit(3)
		<-done
		if b.used() != 3 {
			t.Errorf("%d out", b.used())
		}
		if err := b.acquire(canceled(t), 1); !errors.Is(err, context.Canceled) {
			t.Errorf("over the limit with a context that has ended: %v", err)
		}
		b.release(3)
		if err := b.acquire(t.Context(), 5); err != nil { // over the limit, but alone
			t.Error(err)
		}
	})
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// TestScarceMemory: clients that all want more than there is wait for each
// other, and none for ever.
func TestScarceMemory(t *testing.T) {
	e := newExportWith(t, newLoopback(t), Config{ClientMemory: MinMemory, Memory: MinMemory})
	h := e.create("file")
	const size = 700_000
	data := make([]byte, size)
	write := xdr.AppendUint64(xdr.AppendOpaque(nil, h), 0)
	write = xdr.AppendOpaque(xdr.AppendUint32(xdr.AppendUint32(write, size), 0), data)
	read := xdr.AppendUint32(xdr.AppendUint64(xdr.AppendOpaque(nil, h), 0), size)
	if err := e.write(h, 0, data); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 6 {
		c := e.dial(rpctcp.ClientConfig{MaxCalls: 8, Cred: e.cred})
		for i := range 8 {
			wg.Go(func() {
				proc, args := uint32(procRead), read
				if i%2 == 0 {
					proc, args = procWrite, write
				}
				if _, err := c.Call(t.Context(), nfs.Program, 3, proc, args, nil); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
}

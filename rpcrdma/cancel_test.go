package rpcrdma_test

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestCancelAnywhere: calls are given up at any moment. Once a call has returned
// its buffer belongs to the caller: nothing writes into it. A responder that
// writes into what was given up loses its connection; the client goes on.
func TestCancelAnywhere(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c := b.dialAgain(p, soon)
		var given, answered atomic.Int32
		var wg sync.WaitGroup
		for i := range 6 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(11, uint64(i)))
				// On a busy machine a call may be answered before anybody gives it up.
				for n := 0; n < 12 || given.Load() == 0 || answered.Load() == 0; n++ {
					if cancelled(b, c, rng) {
						given.Add(1)
					} else {
						answered.Add(1)
					}
				}
			})
		}
		wg.Wait()
		for i := range 3 {
			should(t, readBack(b.ctx, c, procRead, 20000, 20000, uint32(i)))
		}
	})
}

// cancelled makes a READ that is given up while a few other calls go on, says
// whether it was, and checks that its buffer is left alone after that.
func cancelled(b *bed, c *rpcrdma.Client, rng *rand.Rand) bool {
	n := 5000 + rng.IntN(20000)
	buf, err := c.Alloc(b.ctx, n+3)
	if err != nil {
		b.t.Error(err)
		return false
	}
	defer buf.Release()
	ctx, cancel := context.WithCancel(b.ctx)
	defer cancel()
	others := rng.IntN(3)
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		for i := range others {
			should(b.t, echo(b.ctx, c, 100*i, 1))
		}
		cancel()
	}()
	call := newCall(procRead)
	call.Args = xdr.AppendUint32(xdr.AppendUint32(nil, uint32(n)), 5)
	call.MaxReply = 12
	call.Results = []rpcrdma.Result{{Buf: buf, Max: n}}
	err = c.Call(ctx, &call)
	if err != nil && !errors.Is(err, context.Canceled) {
		b.t.Errorf("%v", err)
	}
	mine := buf.Bytes()
	copy(mine, bytes.Repeat([]byte{0xa5}, len(mine)))
	want := bytes.Clone(mine)
	should(b.t, echo(b.ctx, c, 10, 1))
	if !bytes.Equal(mine, want) {
		b.t.Error("written after the call returned")
	}
	return err != nil
}

// TestDeadline: a call returns when its deadline passes, with its memory out
// of the peer's reach, and not before. Its credit comes back with the answer.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := handlerFunc(func(ctx context.Context, c *call, r *reply) error {
			if c.Procedure == procWrite {
				<-release
			}
			return service{}.ServeRPC(ctx, c, r)
		})
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: h, timeout: time.Hour, settings: func(s *rpcrdma.Settings) {
			// A late reply that invalidates what was fenced would end the connection.
			s.CreditsMax, s.RemoteInvalidationUse = 1, false
		}})
		c, _ := b.dial(nil)
		began := time.Now()
		ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
		defer cancel()
		if err := writeOut(ctx, c, 10000, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 5*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		if s := c.Stats(); s.LocalInvalidations != 1 || s.CallsFenced != 1 {
			t.Errorf("%+v", s)
		}
		// Its credit is still out: the next call waits for it, too long.
		ctx, cancel = context.WithTimeout(b.ctx, 7*time.Second)
		defer cancel()
		if err := echo(ctx, c, 10, 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != 12*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		close(release)
		should(t, echo(b.ctx, c, 10, 1))
		if s := c.Stats(); s.BadXIDs != 1 || s.Replies != 1 {
			t.Errorf("%+v", s)
		}
	})
}

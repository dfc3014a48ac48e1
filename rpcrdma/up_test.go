package rpcrdma_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// counting counts the calls that it is given.
type counting struct {
	service
	calls atomic.Int32
}

func (c *counting) ServeRPC(ctx context.Context, call *oncrpc.Call, r *oncrpc.Reply) error {
	c.calls.Add(1)
	return c.service.ServeRPC(ctx, call, r)
}

// TestUpBeforeTheFirstCall: calls that the client makes as soon as it can wait
// until Up has returned; Up finds the connection ready to be used.
func TestUpBeforeTheFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := new(counting)
		var told *rpcrdma.Conn
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{handler: handler, timeout: time.Hour, up: func(c *rpcrdma.Conn) {
			time.Sleep(time.Minute) // the client's calls are here long before
			if n, received := handler.calls.Load(), c.Stats().Receives; n+int32(received) != 0 {
				t.Errorf("%d calls served, %d messages received", n, received)
			}
			s := rpcrdma.DefaultSettings()
			s.CreditsMax = 7
			c.SetSettings(&s)
			told = c
		}})
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{})
		must(t, err)
		defer c.Close()
		for range 3 {
			must(t, c.Call(b.ctx, &rpcrdma.Call{Program: 1, Version: 1, Procedure: procNull}))
		}
		conn := <-b.conns
		if told != conn || conn.Stats().Calls != 3 || conn.Info().CreditsGranted != 7 {
			t.Errorf("told of %p; %p served %d calls and grants %d", told, conn, conn.Stats().Calls, conn.Info().CreditsGranted)
		}
	})
}

// TestClosedWhileUp: who is told of a connection may have it closed at once by
// another goroutine; Accept returns it all the same, and it is freed.
func TestClosedWhileUp(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		closed := make(chan error, 1)
		b := newBed(t, p, bedConfig{up: func(c *rpcrdma.Conn) {
			closing := make(chan struct{})
			go func() {
				close(closing)
				closed <- c.Close()
			}()
			<-closing
		}})
		c, conn := b.dial(nil)
		should(t, <-closed)
		<-conn.Done()
		if err := c.Call(b.ctx, &rpcrdma.Call{Program: 1, Version: 1, Procedure: procNull}); err == nil {
			t.Error("a call on a closed connection was answered")
		}
	})
}

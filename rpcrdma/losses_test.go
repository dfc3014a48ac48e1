package rpcrdma_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// losing answers calls of procNull; any other costs its connection.
func losing(lost *int, end func()) handlerFunc {
	return func(ctx context.Context, c *call, r *reply) error {
		if c.Procedure == procNull {
			return nil
		}
		*lost++
		go end()
		<-ctx.Done()
		return ctx.Err()
	}
}

// TestLossesAreBounded: a call under which every connection is lost ends, with an
// error that says so, though others are answered on each of them.
func TestLossesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		var b *bed
		b = newBed(t, loopback.New(loopback.Config{}), bedConfig{
			timeout: 1000 * time.Hour,
			handler: losing(&lost, func() { (<-b.conns).Close() }),
		})
		c := b.dialAgain(b.p, rpcrdma.Reconnect{})
		err := echo(b.ctx, c, 10, 1)
		if end := (*rpcrdma.Error)(nil); !errors.Is(err, rpcrdma.ErrTooManyLosses) || !errors.As(err, &end) || lost != 128 {
			t.Errorf("%v after %d connections", err, lost)
		}
		should(t, plain(b.ctx, c, procNull))
	})
}

// TestCallbackLossesAreBounded: the same for a call to a client.
func TestCallbackLossesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := 0
		var room rpcrdma.Backchannel[string]
		conns := make(chan *rpcrdma.Conn, 1)
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{
			timeout: 1000 * time.Hour, settings: backward(4),
			up: func(c *rpcrdma.Conn) {
				c.OpenBackchannel()
				room.Bind("a", c)
				conns <- c
			},
		})
		s := rpcrdma.DefaultSettings()
		backward(4)(&s)
		c, err := rpcrdma.Dial(b.ctx, b.p, b.l.Addr().String(), rpcrdma.DialConfig{
			Settings: &s, Reconnect: &rpcrdma.Reconnect{}, Handler: losing(&lost, func() { (<-conns).Close() }),
		})
		must(t, err)
		defer c.Close()
		if err := echo(b.ctx, away[string]{&room, "a"}, 10, 1); !errors.Is(err, rpcrdma.ErrTooManyLosses) || lost != 128 {
			t.Errorf("%v after %d connections", err, lost)
		}
	})
}

// TestEndedContexts: a call whose context has ended is not made, whatever of the
// connections.
func TestEndedContexts(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{settings: backward(4)})
	c, conn := b.dialServing(rpcrdma.DialConfig{Handler: service{}, Reconnect: &soon}, backward(4))
	must(t, echo(b.ctx, c, 10, 1))
	var room rpcrdma.Backchannel[string]
	conn.OpenBackchannel()
	room.Bind("a", conn)
	ctx, cancel := context.WithCancel(b.ctx)
	cancel()
	for name, to := range map[string]caller{"client": c, "server": conn, "backchannel": away[string]{&room, "a"}} {
		if err := echo(ctx, to, 10, 1); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if st := c.Stats(); st.Calls != 1 || st.ReverseCalls != 0 {
		t.Errorf("%d calls, %d to the client", st.Calls, st.ReverseCalls)
	}
}

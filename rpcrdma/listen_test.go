package rpcrdma_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestClosedListenerTakesNothing: a closed listener leaves the requests at its address to its
// successor.
func TestClosedListenerTakesNothing(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		for range 10 {
			l, err := rpcrdma.Listen(b.ctx, b.p, bedHost+":0", rpcrdma.ListenConfig{})
			must(t, err)
			next := l.Successor(rpcrdma.ListenConfig{})
			must(t, l.Close())
			dialed := make(chan error, 1)
			go func() {
				c, err := rpcrdma.Dial(b.ctx, b.p, next.Addr().String(), rpcrdma.DialConfig{})
				if err == nil {
					err = c.Close()
				}
				dialed <- err
			}()
			time.Sleep(2 * time.Millisecond) // so that the request is likely to be there
			if req, err := l.Accept(b.ctx); !errors.Is(err, verbs.ErrClosed) {
				t.Errorf("a closed listener accepts: %v", err)
				if err == nil {
					_ = req.Reject(b.ctx)
				}
			} else if req, err := next.Accept(b.ctx); err != nil {
				t.Error(err)
			} else if conn, err := req.Accept(b.ctx, rpcrdma.ConnConfig{Handler: service{}}); err != nil {
				t.Error(err)
			} else {
				<-conn.Done()
				should(t, <-dialed)
			}
			should(t, next.Close())
		}
	})
}

// TestUnbindKeepsRequests: a listener that has given up its address takes no more requests. One that
// it has taken before becomes a connection.
func TestUnbindKeepsRequests(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		l, err := rpcrdma.Listen(b.ctx, b.p, bedHost+":0", rpcrdma.ListenConfig{})
		must(t, err)
		dial := func() error {
			c, err := rpcrdma.Dial(b.ctx, b.p, l.Addr().String(), rpcrdma.DialConfig{})
			if err == nil {
				err = c.Close()
			}
			return err
		}
		dialed := make(chan error, 1)
		go func() { dialed <- dial() }()
		req, err := l.Accept(b.ctx)
		must(t, err)
		should(t, l.Unbind())
		if _, err := l.Accept(b.ctx); !errors.Is(err, verbs.ErrClosed) {
			t.Errorf("accepts: %v", err)
		}
		if err := dial(); !errors.Is(err, rdmacm.ErrUnreachable) {
			t.Errorf("listens: %v", err)
		}
		conn, err := req.Accept(b.ctx, rpcrdma.ConnConfig{Handler: service{}})
		must(t, err)
		<-conn.Done()
		should(t, <-dialed)
		should(t, l.Close())
	})
}

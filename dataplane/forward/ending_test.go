package forward

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestClientGone: with a client's connection its upstream connection ends, also
// with a call in flight or a reply half there, and that is nobody's fault.
func TestClientGone(t *testing.T) {
	for name, sent := range map[string]int{"unanswered": 0, "half answered": 3000} {
		t.Run(name, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				u := newUpstream(t)
				r := newRig(t, p, u.address)
				c := r.dial()
				up := u.accept()
				done := make(chan error, 1)
				go func() { done <- c.Call(t.Context(), readCall(t, c)) }()
				xid := up.call().XID
				up.write(record(success(xid, didRead(string(make([]byte, 5000)))), 0)[:sent])
				c.Close()
				if err := <-done; err == nil {
					t.Error("answered")
				}
				if msg := up.next(); msg != nil {
					t.Errorf("the upstream got %x", msg)
				}
				r.down()
				if s := r.Stats(); s.Lost != 0 || s.Connections != 0 {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

// TestLastReplies: a client gets the replies after which its upstream closed the connection.
func TestLastReplies(t *testing.T) {
	const calls, size = 8, 256 << 10
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		u := newUpstream(t)
		r := newRig(t, p, u.address)
		data := string(make([]byte, size))
		var lost atomic.Int32
		for range 20 {
			c := r.dial()
			up := u.accept()
			go func() { up.send(success(up.call().XID), 0) }()
			if err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil { // before it there is one credit
				t.Fatal(err)
			}
			go func() {
				var all []byte
				for range calls {
					all = append(all, record(success(up.call().XID, didRead(data)), 0)...)
				}
				up.write(all)
				up.Close()
			}()
			var all sync.WaitGroup
			for range calls {
				call := readSome(t, c, size)
				all.Go(func() {
					if c.Call(t.Context(), call) != nil {
						lost.Add(1)
					}
				})
			}
			all.Wait()
			c.Close()
		}
		if n := lost.Load(); n > 0 {
			t.Errorf("%d of %d replies are lost", n, 20*calls)
		}
	})
}

// brokenConn is an upstream that takes some writes, and has then ended its connection.
type brokenConn struct {
	*scriptConn
	takes int
}

func (c *brokenConn) Write(b []byte) (int, error) {
	if c.takes--; c.takes < 0 {
		return 0, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}
	}
	return c.scriptConn.Write(b)
}

// TestRepliesBeforeBrokenPipe: an upstream answers a call and ends its connection. The next call
// finds that out before the reply is read. The first call gets its reply nevertheless.
func TestRepliesBeforeBrokenPipe(t *testing.T) {
	nc := &brokenConn{scriptConn: newScriptConn(), takes: 1}
	s := newSession(newHasty(Config{}), netip.AddrPort{}, nc)
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	s.Up(endedConn{cancel})
	wrote := make(chan struct{}, 1)
	nc.wrote = func([]byte) { wrote <- struct{}{} }
	var errs [2]chan error
	for i := range errs {
		errs[i] = make(chan error, 1)
		w := newWaiter(s)
		call := &oncrpc.Call{XID: uint32(i), Program: 7, Version: 1, Later: w}
		if err := s.ServeRPC(ctx, call, new(oncrpc.Reply)); !errors.Is(err, oncrpc.ErrLater) {
			t.Fatal(err)
		}
		go func() { errs[i] <- <-w.over }()
	}
	<-wrote
	nc.next <- record(success(0, "results"), 0)
	if err := <-errs[0]; err != nil {
		t.Errorf("the call that was answered: %v", err)
	}
	close(nc.next)
	if err := <-errs[1]; err == nil {
		t.Error("the other one has a reply")
	}
}

// tardyConn is an upstream whose writes end, some time after the connection, with an error.
type tardyConn struct{ *scriptConn }

func (c tardyConn) Write([]byte) (int, error) {
	<-c.closed
	time.Sleep(time.Second)
	return 0, net.ErrClosed
}

// TestReplyWhileSending: an upstream answers a call and closes its connection while the call is
// still being sent, for example with others. The client gets the reply before its connection ends.
func TestReplyWhileSending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		nc, ended, answered := tardyConn{newScriptConn()}, make(chan string, 1), make(chan error, 1)
		s := newSession(newHasty(Config{}), netip.AddrPort{}, nc)
		defer s.Close()
		s.Up(fakeConn{ended: ended})
		go func() {
			answered <- serve(t.Context(), s, &oncrpc.Call{XID: 1, Program: 7, Version: 1}, new(oncrpc.Reply))
		}()
		synctest.Wait()
		nc.next <- record(success(1, "results"), 0)
		synctest.Wait()
		close(nc.next)
		<-ended
		synctest.Wait()
		if len(answered) == 0 {
			t.Error("the connection ends before the reply")
		}
		if err := <-answered; err != nil {
			t.Error(err)
		}
	})
}

// TestNotSent: what a call can't be sent for.
func TestNotSent(t *testing.T) {
	nc := newScriptConn()
	s := newSession(New(Config{}), netip.AddrPort{}, nc)
	defer s.Close()
	wrote := make(chan struct{}, 1)
	nc.wrote = func([]byte) { wrote <- struct{}{} }
	done := make(chan error, 1)
	go func() { done <- serve(t.Context(), s, &oncrpc.Call{XID: 1}, new(oncrpc.Reply)) }()
	<-wrote
	if err := serve(t.Context(), s, &oncrpc.Call{XID: 1}, new(oncrpc.Reply)); !errors.Is(err, errXIDInUse) {
		t.Errorf("the same XID: %v", err)
	}
	nc.next <- record(success(1), 0)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestOverBeforeCall: a call on a session that is over waits for its
// connection's end.
func TestOverBeforeCall(t *testing.T) {
	s := newBare(t, Config{}, fakeConn{err: rpcrdma.ErrNoBackchannel, ended: make(chan string, 1)})
	s.upstream.Close()
	<-s.done
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- serve(ctx, s.Session, &oncrpc.Call{XID: 1}, new(oncrpc.Reply)) }()
	select {
	case err := <-done:
		t.Errorf("answered: %v", err)
	default:
	}
	cancel()
	if err := <-done; err == nil {
		t.Error("answered with success")
	}
}

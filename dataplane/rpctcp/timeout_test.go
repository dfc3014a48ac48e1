package rpctcp

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// pipeServer is a server without sockets, for a test under synctest's clock.
func pipeServer(t *testing.T, cfg Config) (*testServer, *pipeListener) {
	t.Helper()
	l := newPipeListener()
	return startServer(t, cfg, l), l
}

// until says how long it takes for the server to close nc.
func until(nc net.Conn) time.Duration {
	start := time.Now()
	io.Copy(io.Discard, nc)
	return time.Since(start)
}

func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New(), Places: places(t, connlimit.Limits{Idle: time.Minute})})
		nc := l.dial(t)
		c := NewClient(nc, ClientConfig{})
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		<-c.done
		if d := time.Since(start); d < time.Minute || d > time.Minute+2*time.Second {
			t.Errorf("closed after %v", d)
		}
		synctest.Wait()
		if got := s.Stats(); got.Evicted[connlimit.Idle] != 1 || got.Errors != 0 || got.Connections != 0 || s.log.String() != "" {
			t.Errorf("%+v, log %q", got, s.log.String())
		}
	})
}

// TestHalfOpen: connections without a complete call are closed sooner than idle
// ones.
func TestHalfOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New(), RecordTimeout: time.Hour, Places: places(t, connlimit.Limits{HalfOpen: 20 * time.Second})})
		silent, slow := l.dial(t), l.dial(t)
		if _, err := slow.Write([]byte{0x80, 0}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		until(silent)
		until(slow)
		if d := time.Since(start); d < 20*time.Second || d > 22*time.Second {
			t.Errorf("closed after %v", d)
		}
		synctest.Wait()
		if got := s.Stats(); got.Evicted[connlimit.HalfOpen] != 2 || got.Connections != 0 {
			t.Errorf("%+v", got)
		}
	})
}

// TestNotIdleWithCallsInFlight has a call take longer than a connection may be
// idle.
func TestNotIdleWithCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := pipeServer(t, Config{Places: places(t, connlimit.Limits{Idle: time.Minute, HalfOpen: time.Minute}), Handler: handlerFunc(func(ctx context.Context, _ *oncrpc.Call, _ *oncrpc.Reply) error {
			select {
			case <-time.After(time.Hour):
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		})})
		c := NewClient(l.dial(t), ClientConfig{})
		defer c.Close()
		if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
			t.Error(err)
		}
	})
}

func TestRecordTimeout(t *testing.T) {
	for name, start := range map[string][]byte{
		"half a mark":   {0x80, 0},
		"a mark":        {0x80, 0, 1, 0},
		"half a record": append([]byte{0x80, 0, 1, 0}, make([]byte, 128)...),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, l := pipeServer(t, Config{Handler: echo.New(), RecordTimeout: 5 * time.Second})
				nc := l.dial(t)
				if _, err := nc.Write(start); err != nil {
					t.Fatal(err)
				}
				if d := until(nc); d != 5*time.Second {
					t.Errorf("closed after %v", d)
				}
				synctest.Wait()
				s.wantLog(t, "timeout")
			})
		})
	}
}

// TestSlowReader calls for more than the peer takes: the connection is cut, and
// what the replies held is free again.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, l := pipeServer(t, Config{Handler: echo.New(), WriteTimeout: 5 * time.Second})
		nc := l.dial(t)
		start := time.Now()
		for xid := range uint32(8) {
			if _, err := nc.Write(record(xid, echo.ProcRead, xdr.AppendUint32(nil, 1<<20))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if u := s.replies.fair.Usage(); u.Held != 8<<20 {
			t.Errorf("%d bytes out while replies wait", u.Held)
		}
		<-s.openConns()[0].ctx.Done()
		if d := time.Since(start); d != 5*time.Second {
			t.Errorf("cut after %v", d)
		}
		synctest.Wait()
		s.wantLog(t, "timeout")
		s.checkMemory(t)
	})
}

// TestMemoryLimit has replies wait for memory that others hold, not fail.
func TestMemoryLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 4 << 20
		s, l := pipeServer(t, Config{Handler: echo.New(), MemoryLimit: limit})
		nc := l.dial(t)
		for xid := range uint32(10) {
			if _, err := nc.Write(record(xid, echo.ProcRead, xdr.AppendUint32(nil, 1<<20))); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if u := s.replies.fair.Usage(); u.Held > limit || u.Held < limit-1<<20 {
			t.Errorf("%d bytes out", u.Held)
		}
		s.SetMemoryLimit(2 * limit)
		synctest.Wait()
		if u := s.replies.fair.Usage(); u.Held <= limit || u.Held > 2*limit || s.MemoryLimit() != 2*limit {
			t.Errorf("%d bytes out when the limit is raised", u.Held)
		}
		s.SetMemoryLimit(limit)
		r := oncrpc.NewRecordReader(nc, 2<<20)
		for range 10 {
			if b := readRecord(t, r); len(b) != oncrpc.AcceptedReplySize+4+1<<20 {
				t.Fatalf("reply of %d bytes", len(b))
			}
		}
		synctest.Wait()
		s.checkMemory(t)
	})
}

// TestClientStalls has the server stop in the middle of a reply, and stop
// reading.
func TestClientStalls(t *testing.T) {
	for name, sent := range map[string]int{"in a mark": 1, "in an XID": 7, "in a type": 11, "in a reply": oncrpc.RecordMarkSize + oncrpc.AcceptedReplySize} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				c := NewClient(near, ClientConfig{RecordTimeout: 5 * time.Second})
				defer c.Close()
				go answer(far, func(xid uint32) []byte {
					msg := oncrpc.AppendAcceptedReply(nil, xid)
					return append(oncrpc.AppendRecordMark(nil, len(msg)+4, true), msg...)[:sent]
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err := echoCall(ctx, c, echo.ProcNull, nil)
				if timeout := net.Error(nil); !errors.As(err, &timeout) || !timeout.Timeout() || time.Since(start) != 5*time.Second {
					t.Errorf("%v after %v", err, time.Since(start))
				}
			})
		})
	}
	t.Run("in a call", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			near, far := net.Pipe()
			defer far.Close()
			c := NewClient(near, ClientConfig{WriteTimeout: 5 * time.Second})
			defer c.Close()
			start := time.Now()
			first := make(chan error)
			go func() {
				_, err := echoCall(t.Context(), c, echo.ProcNull, nil)
				first <- err
			}()
			synctest.Wait()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := echoCall(ctx, c, echo.ProcNull, nil); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("call behind it: %v", err)
			}
			if err := <-first; !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 5*time.Second {
				t.Errorf("%v after %v", err, time.Since(start))
			}
		})
	})
}

// answer reads one call from far, writes what reply makes for its XID, and
// then reads on.
func answer(far net.Conn, reply func(xid uint32) []byte) {
	defer far.Close()
	r := oncrpc.NewRecordReader(far, 1<<20)
	if _, err := r.Next(); err != nil {
		return
	}
	msg, err := r.Read(nil)
	if err != nil {
		return
	}
	xid, _, _ := oncrpc.MessageType(msg)
	far.Write(reply(xid))
	io.Copy(io.Discard, far)
}

// shortListener does not accept its first connections.
type shortListener struct {
	*pipeListener
	why      syscall.Errno
	failures atomic.Int32
}

func (l *shortListener) Accept() (net.Conn, error) {
	if l.failures.Add(-1) >= 0 {
		return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", l.why)}
	}
	return l.pipeListener.Accept()
}

// TestAcceptRetries has accepting fail, for lack of descriptors or by the rules of a security
// module, and work again later.
func TestAcceptRetries(t *testing.T) {
	for _, why := range []syscall.Errno{syscall.EMFILE, syscall.EPERM} {
		synctest.Test(t, func(t *testing.T) {
			l := &shortListener{pipeListener: newPipeListener(), why: why}
			l.failures.Store(1)
			s := startServer(t, Config{Handler: echo.New()}, l)
			c := NewClient(l.dial(t), ClientConfig{})
			defer c.Close()
			if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
				t.Error(err)
			}
			s.wantLog(t, "can't accept", why.Error())
		})
	}
}

// TestCloseWhileAcceptFails does not wait for the next attempt.
func TestCloseWhileAcceptFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &shortListener{pipeListener: newPipeListener(), why: syscall.EMFILE}
		l.failures.Store(2)
		s := startServer(t, Config{Handler: echo.New()}, l)
		synctest.Wait()
		start := time.Now()
		if err := s.Close(); err != nil || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
	})
}

// TestCloseWhileWaitingForMemory closes the server while one call holds all memory
// and another waits for some.
func TestCloseWhileWaitingForMemory(t *testing.T) {
	for name, c := range map[string]struct {
		cfg   Config
		conns int
	}{
		"of a record": {Config{MemoryLimit: 2 * smallRequest, MaxRecord: 2 * smallRequest}, 2},
		"of a reply":  {Config{MemoryLimit: keepStream, MaxRecord: 4096}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newGate()
				c.cfg.Handler = g
				s, l := pipeServer(t, c.cfg)
				call := record(1, 0, make([]byte, c.cfg.MaxRecord-100))
				for range c.conns {
					nc := l.dial(t)
					for range 2 / c.conns {
						go nc.Write(call)
						synctest.Wait()
					}
				}
				if len(g.entered) != 1 {
					t.Errorf("%d calls are served", len(g.entered))
				}
				if err := s.Close(); err != nil {
					t.Error(err)
				}
				s.checkMemory(t)
			})
		})
	}
}

package rpctcp

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Attacks on a server with default limits of memory and time, beside well-behaved
// clients. The clock stands still while any goroutine can run, so time that passes
// is time spent waiting.

// attackLimits let one peer have all places: all connections of a test have the
// same address.
var attackLimits = connlimit.Limits{Total: 400, PerKey: 1000}

// bystander is a client that connected before the attack.
type bystander struct {
	s    *testServer
	l    *pipeListener
	here *Client
}

func newBystander(t *testing.T) *bystander {
	s, l := pipeServer(t, Config{Handler: echo.New(), Places: places(t, attackLimits)})
	b := &bystander{s: s, l: l, here: NewClient(l.dial(t), ClientConfig{})}
	t.Cleanup(func() { b.here.Close() })
	b.served(t)
	return b
}

// call makes a call and returns how long it waited.
func (b *bystander) call(t *testing.T, c *Client, proc uint32, args []byte) time.Duration {
	t.Helper()
	start := time.Now()
	if _, err := echoCall(t.Context(), c, proc, args); err != nil {
		t.Errorf("procedure %d after %v: %v", proc, time.Since(start), err)
	}
	return time.Since(start)
}

// served fails the test unless small calls are answered without waiting, on the old
// connection and on a new one.
func (b *bystander) served(t *testing.T) {
	t.Helper()
	synctest.Wait()
	fresh := NewClient(b.l.dial(t), ClientConfig{})
	defer fresh.Close()
	for name, c := range map[string]*Client{"existing": b.here, "new": fresh} {
		for what, took := range map[string]time.Duration{
			"NULL":        b.call(t, c, echo.ProcNull, nil),
			"4 KiB read":  b.call(t, c, echo.ProcRead, xdr.AppendUint32(nil, 4<<10)),
			"4 KiB write": b.call(t, c, echo.ProcWrite, opaque(4<<10)),
		} {
			if took != 0 {
				t.Errorf("%s of the %s connection waited %v", what, name, took)
			}
		}
	}
}

// servedSoon fails the test unless large calls are answered before the attackers'
// patience ends.
func (b *bystander) servedSoon(t *testing.T) {
	t.Helper()
	took := b.call(t, b.here, echo.ProcRead, xdr.AppendUint32(nil, 1<<20))
	took = max(took, b.call(t, b.here, echo.ProcWrite, opaque(1<<20)))
	if took > DefaultRecordTimeout/2 {
		t.Errorf("a large call waited %v", took)
	}
}

// attackers opens connections that send data and read nothing.
func (b *bystander) attackers(t *testing.T, n int, data []byte) {
	t.Helper()
	for range n {
		nc := b.l.dial(t)
		go nc.Write(data) // the server may read only a part
	}
	synctest.Wait()
}

// TestRecordsNotFinished has connections send a part of a large record and wait.
func TestRecordsNotFinished(t *testing.T) {
	whole := record(1, echo.ProcWrite, opaque(1<<20))
	for name, c := range map[string]struct {
		sent int
		held int64 // at most, in bytes for each
	}{
		"a mark":    {oncrpc.RecordMarkSize, 0},
		"8 KiB":     {8 << 10, 0},
		"firstPart": {firstPart, firstPart},
		"one half":  {len(whole) / 2, DefaultMaxRecord},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBystander(t)
				const n = 300
				b.attackers(t, n, whole[:c.sent])
				if u := b.s.calls.fair.Usage(); u.Held > n*c.held {
					t.Errorf("%d bytes are held", u.Held)
				}
				b.served(t)
				b.servedSoon(t)
				b.served(t)
			})
		})
	}
}

// TestRepliesNotRead has connections that make calls and do not read the replies: a
// few with large replies, and many.
func TestRepliesNotRead(t *testing.T) {
	var calls []byte
	for xid := range uint32(DefaultMaxCalls) {
		calls = append(calls, record(xid, echo.ProcRead, xdr.AppendUint32(nil, 1<<20))...)
	}
	for name, n := range map[string]int{"3 connections": 3, "100 connections": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBystander(t)
				b.attackers(t, n, calls)
				b.served(t)
				b.servedSoon(t)
				b.served(t)
			})
		})
	}
}

// TestReplyTrickles has a peer read its replies slowly. The rate expected of it
// rises with the bytes that wait for it.
func TestReplyTrickles(t *testing.T) {
	for _, c := range []struct {
		replies, rate int
		ends          bool
	}{{1, 2 * Floor, true}, {1, Floor / 4, false}, {32, 2 * Floor, false}} {
		synctest.Test(t, func(t *testing.T) {
			s, l := pipeServer(t, Config{Handler: echo.New()})
			nc := l.dial(t)
			for xid := range uint32(c.replies) {
				if _, err := nc.Write(record(xid, echo.ProcRead, xdr.AppendUint32(nil, 1<<20))); err != nil {
					t.Fatal(err)
				}
			}
			got := int64(0)
			for want := int64(c.replies) << 20; got < want; {
				time.Sleep(time.Second)
				n, err := io.CopyN(io.Discard, nc, int64(c.rate))
				got += n
				if err != nil {
					break
				}
			}
			if ends := got >= int64(c.replies)<<20; ends != c.ends {
				t.Errorf("%d replies at %d bytes per second: %d bytes read", c.replies, c.rate, got)
			}
			nc.Close()
			synctest.Wait()
			s.checkMemory(t)
		})
	}
}

// TestIdleConnections fills all places with connections that make no call, or no
// further call. Newcomers get their places; clients that make calls keep their own.
func TestIdleConnections(t *testing.T) {
	for name, data := range map[string][]byte{"silent": nil, "after a call": record(1, echo.ProcNull, nil)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBystander(t)
				idle := make([]net.Conn, 2*attackLimits.Total)
				for i := range idle {
					idle[i] = b.l.dial(t)
					go func() {
						idle[i].Write(data)
						io.Copy(io.Discard, idle[i])
					}()
				}
				synctest.Wait()
				b.call(t, b.here, echo.ProcNull, nil)
				time.Sleep(connlimit.Grace)
				b.call(t, b.here, echo.ProcNull, nil)
				b.served(t)
				synctest.Wait()
				got := b.s.Stats()
				if got.Connections > attackLimits.Total || got.Evicted[connlimit.Total] == 0 {
					t.Errorf("%+v", got)
				}
				for _, nc := range idle {
					nc.Close()
				}
			})
		})
	}
}

// TestIdlestGoes: the connection whose last call ended first loses its place, not the
// one that connected first. Calls that RPC itself denies are use, too.
func TestIdlestGoes(t *testing.T) {
	denied := record(1, echo.ProcNull, nil)
	denied[oncrpc.RecordMarkSize+11]++ // the version of RPC
	for name, c := range map[string]struct {
		call   []byte
		begins time.Duration // the other connection's begins, and ends, after a second
	}{"long": {record(1, echo.ProcRead, nil), 0}, "denied": {denied, 2 * time.Second}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l := pipeServer(t, Config{Places: places(t, connlimit.Limits{Total: 2}), Handler: handlerFunc(func(_ context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
					if c.Procedure == echo.ProcRead {
						time.Sleep(2 * time.Second)
					}
					return nil
				})})
				use := func(nc net.Conn, call []byte) error {
					if _, err := nc.Write(call); err != nil {
						return err
					}
					in := oncrpc.NewRecordReader(nc, 1<<10)
					if _, err := in.Next(); err != nil {
						return err
					}
					_, err := in.Read(nil)
					synctest.Wait()
					return err
				}
				first, second := l.dial(t), l.dial(t)
				used := make(chan error, 1)
				time.AfterFunc(time.Second, func() { used <- use(second, record(1, echo.ProcNull, nil)) })
				time.Sleep(c.begins)
				if err := use(first, c.call); err != nil {
					t.Fatal(err)
				}
				if err := <-used; err != nil {
					t.Fatal(err)
				}
				time.Sleep(connlimit.Grace)
				if err := use(l.dial(t), record(1, echo.ProcNull, nil)); err != nil {
					t.Error(err)
				}
				if err := use(second, record(2, echo.ProcNull, nil)); err == nil {
					t.Error("the idlest kept its place")
				}
				if err := use(first, record(2, echo.ProcNull, nil)); err != nil {
					t.Errorf("the one that was used later: %v", err)
				}
			})
		})
	}
}

// TestArrivingCallIsUse: a connection keeps its place while a call arrives, however long that
// takes a client that sends as fast as it must. A client that stops sending loses its place.
func TestArrivingCallIsUse(t *testing.T) {
	for name, stalls := range map[string]bool{"slow": false, "stalled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, l := pipeServer(t, Config{Places: places(t, connlimit.Limits{Total: 1}), Handler: echo.New()})
				nc := l.dial(t)
				in := oncrpc.NewRecordReader(nc, 1<<10)
				send := func(b []byte) error { _, err := nc.Write(b); return err }
				replied := func() error {
					if _, err := in.Next(); err != nil {
						return err
					}
					_, err := in.Read(nil)
					return err
				}
				if send(record(1, echo.ProcNull, nil)) != nil || replied() != nil {
					t.Fatal("the first call failed")
				}
				call := record(2, echo.ProcWrite, opaque(1<<20))
				for range 14 {
					if err := send(call[:2*Floor]); err != nil {
						t.Fatal(err)
					}
					call = call[2*Floor:]
					time.Sleep(time.Second)
				}
				if stalls {
					time.Sleep(connlimit.Grace)
				}
				_, err := echoCall(t.Context(), NewClient(l.dial(t), ClientConfig{}), echo.ProcNull, nil)
				if served := err == nil; served != stalls {
					t.Errorf("a newcomer: %v", err)
				}
				if stalls {
					return
				}
				if err := send(call); err != nil {
					t.Error(err)
				}
				if err := replied(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// TestPlacesOfOnePeer: one peer can't take all places.
func TestPlacesOfOnePeer(t *testing.T) {
	if DefaultConnectionsPerPeer*8 > DefaultConnections {
		t.Errorf("%d of %d connections may be of one peer", DefaultConnectionsPerPeer, DefaultConnections)
	}
	s := startTCP(t, Config{Handler: echo.New(), Places: places(t, connlimit.Limits{})})
	var refused int
	for range DefaultConnectionsPerPeer + 10 {
		if _, err := echoCall(t.Context(), s.dial(t, ClientConfig{}), echo.ProcNull, nil); err != nil {
			refused++
		}
	}
	if got := s.Stats(); refused != 10 || got.Refused[connlimit.PerKey] != 10 {
		t.Errorf("%d refused, %+v", refused, got)
	}
}

// TestLimitsChange has limits change while connections are up.
func TestLimitsChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table := places(t, connlimit.Limits{})
		s, l := pipeServer(t, Config{Handler: echo.New(), Places: table})
		for range 4 {
			c := NewClient(l.dial(t), ClientConfig{})
			defer c.Close()
			if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
				t.Fatal(err)
			}
		}
		table.SetLimits(DefaultLimits(connlimit.Limits{Total: 2, Idle: time.Hour}))
		if got := table.Limits(); got.Total != 2 || got.PerKey != DefaultConnectionsPerPeer || got.Idle != time.Hour {
			t.Errorf("%+v", got)
		}
		if _, err := echoCall(t.Context(), NewClient(l.dial(t), ClientConfig{}), echo.ProcNull, nil); err == nil {
			t.Error("a newcomer is served although all are in use")
		}
		table.SetLimits(DefaultLimits(connlimit.Limits{Idle: time.Minute}))
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if got := s.Stats(); got.Connections != 0 || got.Evicted[connlimit.Idle] != 4 {
			t.Errorf("%+v", got)
		}
	})
}

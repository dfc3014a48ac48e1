package forward

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/budget"
	"github.com/rdmad/rdmad/dataplane/loglimit/logtest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// patientConn notes how long calls waited.
type patientConn struct {
	fakeConn
	waited chan time.Duration
}

func (c patientConn) Waited(d time.Duration) { c.waited <- d }

// TestFullUpstream: the time for which an upstream takes no calls is told, for
// adaptive credits.
func TestFullUpstream(t *testing.T) {
	nc := newScriptConn()
	taking := make(chan struct{})
	nc.wrote = func([]byte) {
		<-taking
		nc.next <- record(success(1), 0)
	}
	s := newSession(New(Config{}), netip.AddrPort{}, nc)
	defer s.Close()
	conn := patientConn{waited: make(chan time.Duration, 1)}
	s.Up(conn)
	began := time.Now()
	var all sync.WaitGroup
	all.Go(func() {
		if err := serve(t.Context(), s, &oncrpc.Call{XID: 1}, new(oncrpc.Reply)); err != nil {
			t.Error(err)
		}
	})
	for time.Since(began) < 2*time.Millisecond { // it is full for a moment
		select {
		case d := <-conn.waited:
			t.Fatalf("waited %v", d)
		default:
		}
	}
	close(taking)
	if d := <-conn.waited; d <= 0 || d > time.Since(began) {
		t.Errorf("waited %v", d)
	}
	all.Wait()
}

// slowArrival is the arrival of an item of which half comes after each second.
type slowArrival int

func (n slowArrival) Wait(_ context.Context, have int) (int, error) {
	time.Sleep(time.Second)
	return min(have+int(n)/2, int(n)), nil
}

// TestSlowItems: while the items of a call arrive, the client is slow and not the upstream. So this
// time does not count as the upstream's, neither for the call nor for the one behind it.
func TestSlowItems(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1 << 10
		nc := newScriptConn()
		s := newSession(New(Config{}), netip.AddrPort{}, nc)
		defer s.Close()
		conn := patientConn{waited: make(chan time.Duration, 2)}
		s.Up(conn)
		args := enc("handle..", 0, 0, size, 2, size)
		write := &oncrpc.Call{XID: 1, Program: nfsProgram, Version: 3, Procedure: 7, Arrival: slowArrival(size),
			Args: oncrpc.Payload{Stream: args, Items: []oncrpc.Item{{Pos: len(args), Data: make([]byte, size)}}}}
		var replies [2]oncrpc.Reply
		var all sync.WaitGroup
		for i, call := range []*oncrpc.Call{write, {XID: 2, Program: nfsProgram, Version: 3}} {
			all.Go(func() {
				if err := serve(t.Context(), s, call, &replies[i]); err != nil {
					t.Error(err)
				}
			})
			synctest.Wait()
		}
		for range replies {
			if d := <-conn.waited; d != 0 {
				t.Errorf("waited %v", d)
			}
		}
		time.Sleep(3 * time.Second)
		nc.next <- append(record(success(1, 1, 0, 0), 0), record(success(2), 0)...)
		all.Wait()
		for i := range replies {
			if d := replies[i].Upstream; d != 3*time.Second {
				t.Errorf("call %d: %v of the upstream", i+1, d)
			}
		}
	})
}

// TestSlowUpstream: an upstream that answers nothing has no more calls in
// flight than there are credits, however many the client makes.
func TestSlowUpstream(t *testing.T) {
	u := newUpstream(t)
	r := newRig(t, loopback.New(loopback.Config{}), u.address)
	c := r.dial()
	p := u.accept()
	credits := int(rpcrdma.DefaultSettings().CreditsMax)
	calls := 3 * credits
	var all sync.WaitGroup
	all.Go(func() { p.send(success(p.call().XID), 0) }) // brings the grant
	null := &rpcrdma.Call{Program: nfsProgram, Version: 3}
	if err := c.Call(t.Context(), null); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	for range calls {
		all.Go(func() {
			if err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3}); err != nil {
				t.Error(err)
			}
		})
	}
	waiting := make([]uint32, 0, credits)
	for range credits {
		waiting = append(waiting, p.call().XID)
	}
	if n := r.d.Connections()[0].InFlight; n != credits {
		t.Errorf("%d in flight, %d credits", n, credits)
	}
	for _, xid := range waiting {
		p.send(success(xid), 0)
	}
	for range calls - credits {
		p.send(success(p.call().XID), 0)
	}
	all.Wait()
}

// TestUnpooledIsBounded: results for which there is no registered memory share one
// bound, over all connections. A result beyond it waits, and has the memory of another
// once that is released; after 10 s without any, its session ends.
func TestUnpooledIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{Unpooled: budget.New(100)})
		var all [3]struct {
			nc    *scriptConn
			s     *Session
			reply oncrpc.Reply
			done  chan error
		}
		for i := range all {
			a := &all[i]
			a.nc, a.done, a.reply.Mem = newScriptConn(), make(chan error, 1), &memory{scant: true}
			a.reply.Stream = make([]byte, 0, 4096)
			a.s = newSession(f, netip.AddrPort{}, a.nc)
			ctx, cancel := context.WithCancel(t.Context())
			a.s.Up(endedConn{cancel})
			a.nc.wrote = func([]byte) {}
			call := fuzzCalls()[0]
			go func() { a.done <- serve(ctx, a.s, &call, &a.reply) }()
			synctest.Wait()
		}
		answer := func(i int) {
			all[i].nc.next <- record(success(1, didRead(strings.Repeat("x", 60))), 0)
			time.Sleep(memoryWait + time.Second)
			synctest.Wait()
		}
		answer(0)
		if err := <-all[0].done; err != nil {
			t.Fatal(err)
		}
		answer(1)
		if len(all[1].done) > 0 {
			t.Fatal("120 bytes of 100")
		}
		all[0].reply.Release()
		if err := <-all[1].done; err != nil {
			t.Fatal(err)
		}
		answer(2)
		if err := <-all[2].done; !errors.Is(err, errNoMemory) {
			t.Errorf("without memory: %v", err)
		}
		all[1].reply.Release()
		all[2].reply.Release()
		if out, _ := f.cfg.Unpooled.Used(); out != 0 || f.Stats().Unpooled != 2 {
			t.Errorf("%d bytes out, %+v", out, f.Stats())
		}
		for i := range all {
			all[i].s.Close()
		}
	})
}

// TestStreamsAreBounded: replies that grow beyond the memory that the transport has for
// their streams share the bound, too. A reply beyond it waits until another is
// released, and counts only for what it has.
func TestStreamsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 1 << 20
		f := New(Config{Unpooled: budget.New(limit)})
		var all [3]struct {
			nc    *scriptConn
			s     *Session
			reply oncrpc.Reply
			done  chan error
		}
		for i := range all {
			a := &all[i]
			a.nc, a.done, a.reply.Mem = newScriptConn(), make(chan error, 1), &memory{}
			a.reply.Stream = make([]byte, 0, 4096)
			a.s = newSession(f, netip.AddrPort{}, a.nc)
			ctx, cancel := context.WithCancel(t.Context())
			a.s.Up(endedConn{cancel})
			a.nc.wrote = func([]byte) {}
			call := oncrpc.Call{XID: 1, Program: 7, Version: 1} // of no program with a binding
			go func() { a.done <- serve(ctx, a.s, &call, &a.reply) }()
			synctest.Wait()
			a.nc.next <- record(success(1, make([]byte, limit/2+limit/4)), 0)
			synctest.Wait()
		}
		if err := <-all[0].done; err != nil {
			t.Fatal(err)
		}
		if out, _ := f.cfg.Unpooled.Used(); len(all[1].done)+len(all[2].done) > 0 || out > limit {
			t.Errorf("%d bytes out, of %d", out, limit)
		}
		all[0].reply.Release()
		time.Sleep(time.Second)
		ended, waiting := &all[1], &all[2]
		if len(ended.done) == 0 {
			ended, waiting = waiting, ended
		}
		if err := <-ended.done; err != nil {
			t.Error(err)
		}
		if err := <-waiting.done; !errors.Is(err, errNoMemory) {
			t.Errorf("without memory: %v", err)
		}
		ended.reply.Release()
		waiting.reply.Release()
		for i := range all {
			all[i].s.Close()
		}
		if out, n := f.cfg.Unpooled.Used(); out != 0 || n != 0 {
			t.Errorf("%d bytes out, %d wait", out, n)
		}
	})
}

// TestStreamsDoNotWaitForParts: a reply that grows waits neither for memory that it has itself,
// nor for parts of others that grow, too. So replies that are as long as the bound go through, and
// no more memory than that counts, whatever their fragments.
func TestStreamsDoNotWaitForParts(t *testing.T) {
	for name, c := range map[string]struct{ limit, fragment int }{
		"whole":                  {1 << 20, 0},
		"in fragments":           {rpcrdma.MaxMessage, 8 << 10},
		"in fragments, and long": {4 << 20, 8 << 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limit := c.limit
				f := New(Config{Unpooled: budget.New(int64(limit))})
				args := enc("", 2, 1, 68, make([]byte, 16+8), limit) // READ_PLUS, which is not reduced
				data := random(limit - 512)
				msg := record(success(1, 0, "", 1, 68, 0, 1, 1, 0, make([]byte, 8), string(data)), c.fragment)
				var upstreams [3]*scriptConn
				done := make(chan error, len(upstreams))
				for i := range upstreams {
					nc := newScriptConn()
					nc.wrote = func([]byte) {}
					upstreams[i] = nc
					s := newSession(f, netip.AddrPort{}, nc)
					defer s.Close()
					ctx, cancel := context.WithCancel(t.Context())
					s.Up(endedConn{cancel})
					call := oncrpc.Call{XID: 1, Program: nfsProgram, Version: 4, Procedure: 1, Args: oncrpc.Payload{Stream: args}}
					go func() {
						reply := oncrpc.Reply{Stream: make([]byte, 0, 4096), Mem: &memory{}}
						err := serve(ctx, s, &call, &reply)
						if err == nil && !bytes.HasSuffix(reply.Stream, data) {
							err = fmt.Errorf("a stream of %d bytes, or another one", len(reply.Stream))
						}
						reply.Release()
						done <- err
					}()
					synctest.Wait()
					nc.next <- msg[:len(msg)/3]
					synctest.Wait()
				}
				if out, _ := f.cfg.Unpooled.Used(); out > int64(limit) {
					t.Errorf("%d bytes out, of %d", out, limit)
				}
				for _, nc := range upstreams {
					nc.next <- msg[len(msg)/3:]
				}
				for range upstreams {
					if err := <-done; err != nil {
						t.Error(err)
					}
				}
				if out, n := f.cfg.Unpooled.Used(); out != 0 || n != 0 {
					t.Errorf("%d bytes out, %d wait", out, n)
				}
			})
		})
	}
}

// TestGoneWithoutMemory: a client that goes while its reply waits for memory is neither a lost
// upstream nor a lack of memory.
func TestGoneWithoutMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logtest.Log
		f := New(Config{Unpooled: budget.New(1), Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if err := f.cfg.Unpooled.Acquire(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		nc := newScriptConn()
		nc.wrote = func([]byte) {}
		s := newSession(f, netip.AddrPort{}, nc)
		defer s.Close()
		ctx, cancel := context.WithCancel(t.Context())
		s.Up(endedConn{cancel})
		done := make(chan error, 1)
		go func() {
			done <- serve(ctx, s, &oncrpc.Call{XID: 1, Program: 7, Version: 1}, new(oncrpc.Reply))
		}()
		synctest.Wait()
		s.stop() // the session learns the end of its client after the reader
		nc.next <- record(success(1, "results"), 0)
		synctest.Wait()
		cancel()
		<-s.done
		s.clientGone()
		if err := <-done; !errors.Is(err, errClosed) {
			t.Errorf("answered: %v", err)
		}
		if n := f.Stats().Lost; n != 0 || log.String() != "" {
			t.Errorf("%d upstreams lost, logged %s", n, log.String())
		}
	})
}

// TestLengthAloneTakesNoMemory: a long reply gets memory for all of it when part of it has
// come, not when its length has.
func TestLengthAloneTakesNoMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Config{Unpooled: budget.New(4 << 20)})
		nc := newScriptConn()
		s := newSession(f, netip.AddrPort{}, nc)
		defer s.Close()
		nc.wrote = func([]byte) {}
		call := oncrpc.Call{XID: 1, Program: 7, Version: 1} // of no program with a binding
		var reply oncrpc.Reply
		done := make(chan error, 1)
		go func() { done <- serve(t.Context(), s, &call, &reply) }()
		synctest.Wait()
		data := random(1 << 20)
		msg := record(success(1, data), 0)
		for _, step := range []struct{ from, to, most int }{{0, 100, 2 * growStep}, {100, growStep, 2 * growStep}, {growStep, len(msg), 2 << 20}} {
			nc.next <- msg[step.from:step.to]
			synctest.Wait()
			if out, _ := f.cfg.Unpooled.Used(); out > int64(step.most) {
				t.Errorf("%d bytes of memory for %d bytes of a reply", out, step.to)
			}
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
		if !bytes.HasSuffix(reply.Stream, data) {
			t.Errorf("a stream of %d bytes, or another one", len(reply.Stream))
		}
		reply.Release()
	})
}

// TestStreamTakesNoMemoryForResults: a reply that grows takes memory for its stream, and not once more
// for the result that came apart from it.
func TestStreamTakesNoMemoryForResults(t *testing.T) {
	const data, attributes = 1 << 20, 200 << 10
	f := New(Config{})
	nc := newScriptConn()
	s := newSession(f, netip.AddrPort{}, nc)
	defer s.Close()
	nc.wrote = func([]byte) {
		nc.next <- record(success(1, 0, "", 2, 25, 0, 1, string(random(data)), 9, 0, 0, string(random(attributes))), 0)
	}
	args := enc("", 1, 2, 25, make([]byte, 16+8), data, 9, 0) // READ, GETATTR
	call := oncrpc.Call{XID: 1, Program: nfsProgram, Version: 4, Procedure: 1, Args: oncrpc.Payload{Stream: args}}
	reply := oncrpc.Reply{Stream: make([]byte, 0, 4096), Mem: &memory{}}
	if err := serve(t.Context(), s, &call, &reply); err != nil {
		t.Fatal(err)
	}
	if len(reply.Items) != 1 || len(reply.Stream) < attributes {
		t.Errorf("%d results apart, a stream of %d bytes", len(reply.Items), len(reply.Stream))
	}
	if out, _ := f.cfg.Unpooled.Used(); out > 2*attributes {
		t.Errorf("%d bytes of memory for a stream of %d", out, len(reply.Stream))
	}
	reply.Release()
}

package forward

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/netip"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

const callbackProgram = 0x40000123

// createSession is a COMPOUND with CREATE_SESSION that asks for a back channel
// on its connection; createdSession its results that grant it.
var (
	channel        = enc(0, 4096, 4096, 0, 8, 16, 0)
	createSession  = enc("", 1, 1, 43, 0, 9, 1, 2, channel, channel, callbackProgram, 1, 0)
	createdSession = enc(0, "", 1, 43, 0, make([]byte, 16), 1, 2, channel, channel)
)

// callbacks answers calls of the upstream, as a client.
type callbacks struct{ count atomic.Int32 }

func (h *callbacks) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	h.count.Add(1)
	if c.Program != callbackProgram {
		return &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail}
	}
	r.Stream = append(append(r.Stream, "answer: "...), c.Args.Stream...)
	return nil
}

func answering(h oncrpc.Handler) func(*rpcrdma.DialConfig) {
	return func(cfg *rpcrdma.DialConfig) { cfg.Handler = h }
}

// openSession has a client open its back channel. The upstream sends more right
// behind the reply.
func openSession(t *testing.T, c *rpcrdma.Client, p *peer, more ...[]byte) {
	t.Helper()
	go func() {
		out := record(success(p.call().XID, createdSession), 0)
		for _, m := range more {
			out = append(out, record(m, 0)...)
		}
		p.write(out)
	}()
	err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 4, Procedure: 1, Args: createSession, MaxReply: 512})
	if err != nil {
		t.Fatal(err)
	}
}

func callback(xid uint32, args string) []byte {
	c := oncrpc.Call{XID: xid, Program: callbackProgram, Version: 1, Procedure: 1}
	return append(oncrpc.AppendCall(nil, &c), args...)
}

// TestCallbacks: the upstream calls the client, first in the same write as the
// reply that opens the back channel, then many at once, and gets each answer
// under its own XID.
func TestCallbacks(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		u := newUpstream(t)
		r := newRig(t, p, u.address)
		h := new(callbacks)
		c := r.dial(answering(h))
		up := u.accept()
		openSession(t, c, up, callback(7, "1st."))
		if got, want := string(up.next()), string(success(7, []byte("answer: 1st."))); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		const many = 50
		for i := range uint32(many) {
			up.send(callback(100+i, "more"), 0)
		}
		seen := map[uint32]bool{}
		for range many {
			msg := up.next()
			xid, _, _ := oncrpc.MessageType(msg)
			if seen[xid] || string(msg) != string(success(xid, []byte("answer: more"))) {
				t.Errorf("got %q", msg)
			}
			seen[xid] = true
		}
		// Both directions under the same XID, and an answer that is an error.
		other := oncrpc.Call{XID: 77, Program: callbackProgram + 1, Version: 1}
		up.send(oncrpc.AppendCall(nil, &other), 9)
		if got, want := string(up.next()), string(oncrpc.AppendAcceptError(nil, 77, &oncrpc.AcceptError{Stat: oncrpc.ProgUnavail})); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		go func() { up.send(success(up.call().XID), 0) }()
		if err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 3, XID: 77, OwnXID: true}); err != nil {
			t.Error(err)
		}
		if s := r.Stats(); s.Callbacks != many+2 || s.CallbacksRefused != 0 || h.count.Load() != many+2 {
			t.Errorf("%+v, %d served", s, h.count.Load())
		}
	})
}

// TestRepeatedCallback: a call of the upstream with the XID of one in flight gets no answer of
// its own, which the upstream would take for that of the client.
func TestRepeatedCallback(t *testing.T) {
	u := newUpstream(t)
	r := newRig(t, loopback.New(loopback.Config{}), u.address)
	began, answer := make(chan struct{}, 2), make(chan struct{})
	c := r.dial(answering(handlerFunc(func(_ context.Context, _ *oncrpc.Call, r *oncrpc.Reply) error {
		began <- struct{}{}
		<-answer
		r.Stream = append(r.Stream, "once"...)
		return nil
	})))
	up := u.accept()
	openSession(t, c, up, callback(7, "args"))
	<-began
	up.send(callback(7, "args"), 0)
	up.send(callback(7, strings.Repeat("long", maxCallback)), 0)
	for r.Stats().CallbacksRefused < 2 {
		runtime.Gosched()
	}
	close(answer)
	up.send(callback(8, "args"), 0)
	got := map[string]int{string(up.next()): 1}
	got[string(up.next())]++
	if want := map[string]int{string(success(7, []byte("once"))): 1, string(success(8, []byte("once"))): 1}; !maps.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// TestCallbackAfterOneGivenUp: a call of the upstream with the XID of one that was given up, to which
// the client may still answer, gets an answer: that one serves the first only.
func TestCallbackAfterOneGivenUp(t *testing.T) {
	u := newUpstream(t)
	r := newRig(t, loopback.New(loopback.Config{}), u.address, func(c *Config) { c.CallbackTimeout = 100 * time.Millisecond })
	late := make(chan struct{})
	c := r.dial(answering(handlerFunc(func(context.Context, *oncrpc.Call, *oncrpc.Reply) error {
		<-late
		return nil
	})))
	defer close(late)
	up := u.accept()
	openSession(t, c, up)
	for range 2 {
		up.send(callback(7, "args"), 0)
		if got := string(up.next()); got != refusal(7) {
			t.Errorf("got %q", got)
		}
	}
}

// TestCallbackUnderGSS: what opens the back channel may be hidden.
func TestCallbackUnderGSS(t *testing.T) {
	u := newUpstream(t)
	c := newRig(t, loopback.New(loopback.Config{}), u.address).dial(answering(new(callbacks)))
	up := u.accept()
	go func() {
		up.write(append(record(success(up.call().XID, "sealed"), 0), record(callback(5, "args"), 0)...))
	}()
	call := &rpcrdma.Call{
		Program: nfsProgram, Version: 4, Procedure: 1, Args: enc("sealed"), MaxReply: 512,
		Cred: oncrpc.Auth{Flavor: oncrpc.FlavorGSS, Body: enc(1, 0, 1, 3, "handle")},
	}
	if err := c.Call(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if got, want := string(up.next()), string(success(5, []byte("answer: args"))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// refusal is what the upstream is told of a callback that the client did not
// answer.
func refusal(xid uint32) string {
	return string(oncrpc.AppendAcceptError(nil, xid, &oncrpc.AcceptError{Stat: oncrpc.SystemErr}))
}

// TestCallbackWaitsForTheBackChannel: with time enough for it to open, and only
// so long.
func TestCallbackWaitsForTheBackChannel(t *testing.T) {
	u := newUpstream(t)
	c := newRig(t, loopback.New(loopback.Config{}), u.address).dial(answering(new(callbacks)))
	up := u.accept()
	up.send(callback(8, "soon"), 0)
	openSession(t, c, up)
	if got, want := string(up.next()), string(success(8, []byte("answer: soon"))); got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	h := new(callbacks)
	newRig(t, loopback.New(loopback.Config{}), u.address, func(c *Config) { c.CallbackTimeout = 30 * time.Millisecond }).dial(answering(h))
	up = u.accept()
	up.send(callback(7, "soon"), 0)
	if got := string(up.next()); got != refusal(7) {
		t.Errorf("got %q", got)
	}
	if h.count.Load() != 0 {
		t.Errorf("%d served", h.count.Load())
	}
}

// TestTooManyCallbacks: what is over the bound is refused at once, the others
// are answered when the back channel opens.
func TestTooManyCallbacks(t *testing.T) {
	u := newUpstream(t)
	r := newRig(t, loopback.New(loopback.Config{}), u.address)
	c := r.dial(answering(new(callbacks)))
	up := u.accept()
	const over = 10
	for i := range uint32(maxCallbacks + over) {
		up.send(callback(i, "args"), 0)
	}
	for range over {
		if msg := up.next(); !strings.HasSuffix(string(msg), "\x00\x00\x00\x05") {
			t.Errorf("got %q", msg)
		}
	}
	go func() { up.send(success(up.call().XID, createdSession), 0) }()
	err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 4, Procedure: 1, Args: createSession, MaxReply: 512})
	if err != nil {
		t.Fatal(err)
	}
	for range maxCallbacks {
		if msg := up.next(); !strings.HasSuffix(string(msg), "answer: args") {
			t.Errorf("got %q", msg)
		}
	}
	if s := r.Stats(); s.CallbacksRefused != over || s.Callbacks != maxCallbacks+over {
		t.Errorf("%+v", s)
	}
}

// TestBadCallbacks are refused or cost the connection; the client never sees
// them.
func TestBadCallbacks(t *testing.T) {
	for name, c := range map[string]struct {
		call []byte
		want string // the answer; "" when the connection ends
	}{
		"RPC version 3":  {enc(9, 0, 3, callbackProgram, 1, 1, 0, 0, 0, 0), string(oncrpc.AppendDenied(nil, 9, &oncrpc.DeniedError{Stat: oncrpc.RPCMismatch, Low: 2, High: 2}))},
		"too long":       {callback(9, strings.Repeat("x", maxCallback)), refusal(9)},
		"over inline":    {callback(9, strings.Repeat("x", 8000)), refusal(9)},
		"a torn header":  {enc(9, 0, 2, callbackProgram), ""},
		"credential cut": {enc(9, 0, 2, callbackProgram, 1, 1, 0, 400, 0), ""},
	} {
		t.Run(name, func(t *testing.T) {
			u := newUpstream(t)
			r := newRig(t, loopback.New(loopback.Config{}), u.address)
			h := new(callbacks)
			cl := r.dial(answering(h))
			up := u.accept()
			openSession(t, cl, up)
			up.send(c.call, 3000)
			if got := string(up.next()); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if c.want == "" {
				r.down()
			}
			if h.count.Load() != 0 {
				t.Error("the client was called")
			}
		})
	}
}

// TestCallbackWithoutExtension: a connection that can't have a back channel
// says so at once.
func TestCallbackWithoutExtension(t *testing.T) {
	s := newBare(t, Config{}, fakeConn{err: rpcrdma.ErrNoBackchannel})
	s.upstream.send(callback(3, "args"), 0)
	if got := string(s.upstream.next()); got != refusal(3) {
		t.Errorf("got %q", got)
	}
}

// TestFlood: an upstream that calls without taking the answers is given up.
func TestFlood(t *testing.T) {
	ended := make(chan string, 1)
	s := newBare(t, Config{}, fakeConn{err: errors.New("no"), ended: ended})
	for i := range uint32(100_000) {
		if _, err := s.upstream.Write(record(callback(i, "args"), 0)); err != nil {
			break
		}
	}
	if why := <-ended; !strings.Contains(why, errFlood.Error()) {
		t.Errorf("ended for %q", why)
	}
}

// fakeConn is a client's connection that can't be called.
type fakeConn struct {
	err   error
	ended chan string
}

func (fakeConn) ID() string                                  { return "1" }
func (fakeConn) OpenBackchannel()                            {}
func (c fakeConn) Call(context.Context, *rpcrdma.Call) error { return c.err }
func (fakeConn) Inline() (send, receive uint32)              { return 1000, 2000 }
func (fakeConn) Waited(time.Duration)                        {}
func (c fakeConn) End(reason string)                         { c.ended <- reason }

// bareSession is a session whose upstream is the other end of a pipe.
type bareSession struct {
	*Session
	upstream *peer
}

// newBare makes a session, which is closed with the test.
func newBare(t testing.TB, cfg Config, c fakeConn) *bareSession {
	ours, theirs := net.Pipe()
	s := &bareSession{newSession(newHasty(cfg), netip.AddrPort{}, ours), newPeer(t, theirs)}
	s.Up(c)
	t.Cleanup(func() {
		s.Close()
		theirs.Close()
	})
	return s
}

package connector

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// caller is a target that calls its clients: conns has their connections.
type caller struct {
	oncrpc.Handler
	conns chan perconn.Conn
}

func (c caller) OpenConn(context.Context, netip.AddrPort) (perconn.Handler, error) {
	return callerConn{c}, nil
}

type callerConn struct{ caller }

func (c callerConn) Up(conn perconn.Conn) {
	conn.OpenBackchannel()
	c.conns <- conn
}

func (callerConn) Close() {}

// newCaller makes a target call its clients.
func newCaller(t *testing.T, p rdmacm.Provider, cfg Config) (*rig, caller) {
	t.Helper()
	return newCallerWith(t, p, cfg, func(*rig) {}, handlerFunc(func(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return nil }))
}

// newCallerWith has a handler answer the calls. prepare is called before the connector begins.
func newCallerWith(t *testing.T, p rdmacm.Provider, cfg Config, prepare func(*rig), h oncrpc.Handler) (*rig, caller) {
	t.Helper()
	target := caller{h, make(chan perconn.Conn, 1)}
	r := newTargetless(t, p)
	prepare(r)
	r.d.ApplySettings(dataplane.Update{Resolve: settings(func(s *rpcrdma.Settings) {
		s.Extensions |= rpcrdma.ExtBackchannel
		s.CreditsBackchannel = 8
	})}, nil)
	r.listen(target, &cfg)
	r.connect(cfg)
	return r, target
}

const callbackProgram = 0x40001234

// answerCalls answers the calls that come with their arguments, until the
// connection ends. Those of procedure 2 get no answer, those of 3 two.
func answerCalls(t *testing.T, records *oncrpc.RecordReader, write func([]byte)) {
	for {
		if _, err := records.Next(); err != nil {
			return
		}
		msg, err := records.Read(nil)
		if err != nil {
			return
		}
		var c oncrpc.Call
		n, err := oncrpc.DecodeCall(msg, &c)
		if err != nil || c.Program != callbackProgram || c.Version != 1 {
			t.Errorf("the client got %x: %+v, %v", msg, c, err)
			return
		}
		reply := frame(append(oncrpc.AppendAcceptedReply(nil, c.XID), msg[n:]...))
		switch c.Procedure {
		case 1:
			write(reply)
		case 3:
			write(append(reply, reply...))
		case 4:
			write(frame(oncrpc.AppendAcceptError(nil, c.XID, &oncrpc.AcceptError{Stat: oncrpc.ProcUnavail})))
		case 5:
			write(frame(append(oncrpc.AppendAcceptedReply(nil, c.XID), make([]byte, 100<<10)...)))
		case 7: // what it says of its size
			d := xdr.NewDecoder(msg[n:])
			write(frame(append(oncrpc.AppendAcceptedReply(nil, c.XID), make([]byte, d.Uint32())...)))
		case 6:
			write(frame(append(oncrpc.AppendAcceptedReply(nil, c.XID), make([]byte, 8000)...)))
		}
	}
}

func newCall(proc uint32, args []byte) *rpcrdma.Call {
	return &rpcrdma.Call{Program: callbackProgram, Version: 1, Procedure: proc, Args: args, MaxReply: len(args) + 100}
}

// TestCallbacks: calls of the target go to the client, and its answers back,
// while it makes calls itself under the same XIDs.
func TestCallbacks(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r, target := newCaller(t, p, Config{Connector: spec.Connector{CallbackTimeout: 10 * time.Second}})
		nc, records := r.raw()
		var mu sync.Mutex
		write := func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			_, _ = nc.Write(b) // it may have been disconnected
		}
		go answerCalls(t, records, write)
		back := <-target.conns
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				args := bytes.Repeat([]byte{byte(i)}, 4*i)
				c := newCall(1, args)
				if err := back.Call(t.Context(), c); err != nil || !bytes.Equal(c.Reply, args) {
					t.Errorf("%d bytes: %x, %v", len(args), c.Reply, err)
				}
			})
		}
		wg.Wait()
		c := newCall(3, nil)
		if err := back.Call(t.Context(), c); err != nil {
			t.Errorf("answered twice: %v", err)
		}
		err := back.Call(t.Context(), newCall(4, nil))
		if e, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || e.Stat != oncrpc.ProcUnavail {
			t.Errorf("an error of the client: %v", err)
		}
		if i := r.outgoing()[0]; i.Stats.ReverseCalls != 22 || i.Stats.ReverseReplies != 22 {
			t.Errorf("%d calls, %d replies", i.Stats.ReverseCalls, i.Stats.ReverseReplies)
		}
		write(frame(oncrpc.AppendAcceptedReply(nil, 12345))) // to nothing
		write(frame(append(oncrpc.AppendAcceptedReply(nil, 12345), make([]byte, 5000)...)))
		if err := back.Call(t.Context(), newCall(1, nil)); err != nil {
			t.Errorf("after a reply to nothing: %v", err)
		}
		r.close()
		if s := r.c.Stats(); s.Callbacks != 23 || s.Stray < 2 || s.Unanswered != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestCallbackUnanswered: a client that does not answer delays the target only for the allowed
// time.
func TestCallbackUnanswered(t *testing.T) {
	r, target := newCaller(t, newLoopback(t), Config{Connector: spec.Connector{CallbackTimeout: 50 * time.Millisecond}})
	nc, records := r.raw()
	go answerCalls(t, records, func(b []byte) { _, _ = nc.Write(b) })
	back := <-target.conns
	err := back.Call(t.Context(), newCall(2, nil))
	if e, ok := errors.AsType[*oncrpc.AcceptError](err); !ok || e.Stat != oncrpc.SystemErr {
		t.Errorf("no answer: %v", err)
	}
	if s := r.c.Stats(); s.Unanswered != 1 {
		t.Errorf("%+v", s)
	}
	// A machine that is busy may be late with an answer, too.
	for late := true; late; {
		err = back.Call(t.Context(), newCall(1, xdr.AppendUint32(nil, 7)))
		e, ok := errors.AsType[*oncrpc.AcceptError](err)
		late = ok && e.Stat == oncrpc.SystemErr
	}
	if err != nil {
		t.Errorf("the next call: %v", err)
	}
}

// TestCallbackTooLong: answers travel inline, and what no transport could take
// is not even read.
func TestCallbackTooLong(t *testing.T) {
	r, target := newCaller(t, newLoopback(t), Config{})
	nc, records := r.raw()
	go answerCalls(t, records, func(b []byte) { _, _ = nc.Write(b) })
	back := <-target.conns
	if err := back.Call(t.Context(), newCall(6, nil)); err == nil {
		t.Error("8000 bytes came in a Send of 4096")
	}
	if err := back.Call(t.Context(), newCall(1, nil)); err != nil {
		t.Errorf("the next call: %v", err)
	}
	if err := back.Call(t.Context(), newCall(5, nil)); err == nil {
		t.Error("100 KiB came inline")
	}
	r.log.Await(t, "connection down", "listener=out", "too long")
}

// TestCallbackEnds: a call of the target ends with its connection.
func TestCallbackEnds(t *testing.T) {
	r, target := newCaller(t, newLoopback(t), Config{})
	nc, records := r.raw()
	back := <-target.conns
	ended := make(chan error)
	go func() { ended <- back.Call(t.Context(), newCall(2, nil)) }()
	if _, err := records.Next(); err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if err := <-ended; err == nil {
		t.Error("answered by nobody")
	}
}

// TestCallbackPastCalls: while the target waits for an answer, more calls are read than it
// grants, so that an answer after them arrives.
func TestCallbackPastCalls(t *testing.T) {
	g := newGate()
	r := newTargetless(t, newLoopback(t))
	r.d.ApplySettings(dataplane.Update{Resolve: settings(func(s *rpcrdma.Settings) {
		s.Extensions |= rpcrdma.ExtBackchannel
		s.CreditsBackchannel, s.CreditsMax = 8, 2
	})}, nil)
	target := caller{g, make(chan perconn.Conn, 1)}
	var cfg Config
	r.listen(target, &cfg)
	r.connect(cfg)
	nc, records := r.raw()
	back := <-target.conns
	ended := make(chan error)
	go func() { ended <- back.Call(t.Context(), newCall(1, nil)) }()
	if _, err := records.Next(); err != nil {
		t.Fatal(err)
	}
	msg, err := records.Read(nil)
	if err != nil {
		t.Fatal(err)
	}
	xid, _, _ := oncrpc.MessageType(msg)
	var b []byte
	for i := range uint32(6) {
		b = append(b, echoRecord(100+i, 0, nil)...)
	}
	if _, err := nc.Write(append(b, frame(oncrpc.AppendAcceptedReply(nil, xid))...)); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	close(g.open)
	for range 6 {
		if _, err := records.Next(); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Read(nil); err != nil {
			t.Fatal(err)
		}
	}
}

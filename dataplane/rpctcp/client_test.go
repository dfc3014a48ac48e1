package rpctcp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// TestInto reads results into the caller's memory.
func TestInto(t *testing.T) {
	s := startTCP(t, Config{Handler: echo.New()})
	c := s.dial(t, ClientConfig{})
	into := make([]byte, 0, oncrpc.AcceptedReplySize+4+8192)
	for _, n := range []int{1, 4096, 8192} {
		results, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcRead, xdr.AppendUint32(nil, uint32(n)), into)
		if err != nil || !bytes.Equal(results, opaque(n)) {
			t.Fatalf("READ of %d bytes: %d bytes, %v", n, len(results), err)
		}
		if &results[0] != &into[:oncrpc.AcceptedReplySize+1][oncrpc.AcceptedReplySize] {
			t.Errorf("READ of %d bytes: results stand elsewhere", n)
		}
	}
	results, err := c.Call(t.Context(), echo.Program, echo.Version, echo.ProcRead, xdr.AppendUint32(nil, 10000), into)
	if err != nil || !bytes.Equal(results, opaque(10000)) {
		t.Errorf("more than there is room for: %d bytes, %v", len(results), err)
	}
}

func TestCredential(t *testing.T) {
	sys := oncrpc.AuthSys{MachineName: []byte("client"), UID: 1000, GID: 100}
	s := startTCP(t, Config{Handler: handlerFunc(func(_ context.Context, call *oncrpc.Call, reply *oncrpc.Reply) error {
		var got oncrpc.AuthSys
		if err := got.Decode(call.Cred.Body); err != nil || call.Cred.Flavor != oncrpc.FlavorSys || !call.Peer.Addr().IsLoopback() {
			return errors.New("no credential")
		}
		reply.Stream = xdr.AppendUint32(reply.Stream, got.UID)
		return nil
	})})
	c := s.dial(t, ClientConfig{Cred: oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: sys.Append(nil)}})
	if results, err := echoCall(t.Context(), c, 0, nil); err != nil || !bytes.Equal(results, []byte{0, 0, 3, 232}) {
		t.Errorf("%x, %v", results, err)
	}
}

// TestCancel ends one call while others wait, has its reply come late, and
// calls on.
func TestCancel(t *testing.T) {
	g := newGate()
	var mux oncrpc.Mux
	mux.Handle(echo.Program, echo.Version, echo.New())
	mux.Handle(7, 1, g)
	s := startTCP(t, Config{Handler: &mux})
	c := s.dial(t, ClientConfig{})
	kept := make(chan error)
	go func() {
		_, err := c.Call(t.Context(), 7, 1, 0, nil, nil)
		kept <- err
	}()
	<-g.entered
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("gone")
	go func() {
		<-g.entered
		cancel(gone)
	}()
	if _, err := c.Call(ctx, 7, 1, 0, nil, nil); !errors.Is(err, gone) {
		t.Errorf("cancelled call: %v", err)
	}
	if _, err := c.Call(ctx, 7, 1, 0, nil, nil); !errors.Is(err, gone) {
		t.Errorf("call after cancelling: %v", err)
	}
	close(g.open)
	if err := <-kept; err != nil {
		t.Errorf("other call: %v", err)
	}
	if _, err := echoCall(t.Context(), c, echo.ProcNull, nil); err != nil {
		t.Errorf("next call: %v", err)
	}
}

func TestClose(t *testing.T) {
	g := newGate()
	s := startTCP(t, Config{Handler: g})
	c := s.dial(t, ClientConfig{MaxCalls: 1})
	result := make(chan error)
	call := func() {
		_, err := echoCall(t.Context(), c, 0, nil)
		result <- err
	}
	go call()
	<-g.entered
	go call() // waits for the first one
	c.Close()
	for range 2 {
		if err := <-result; !errors.Is(err, ErrClosed) {
			t.Errorf("call in flight: %v", err)
		}
	}
	if _, err := echoCall(t.Context(), c, 0, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("call after Close: %v", err)
	}
	c.Close()
}

// TestBadReplies has the server answer what is no reply.
func TestBadReplies(t *testing.T) {
	one := func(msg []byte) []byte { return append(oncrpc.AppendRecordMark(nil, len(msg), true), msg...) }
	for _, c := range []struct {
		name  string
		reply func(xid uint32) []byte
		want  error
	}{
		{"a call", func(xid uint32) []byte { return record(xid, 0, nil) }, oncrpc.ErrMalformed},
		{"over the limit", func(xid uint32) []byte {
			return append(oncrpc.AppendRecordMark(nil, 5000, true), oncrpc.AppendAcceptedReply(nil, xid)...)
		}, oncrpc.ErrRecordTooLarge},
		{"cut off in its header", func(xid uint32) []byte { return one(oncrpc.AppendAcceptedReply(nil, xid)[:20]) }, oncrpc.ErrMalformed},
		{"a fragment without an XID", func(xid uint32) []byte {
			return append(oncrpc.AppendRecordMark(nil, 4, true), oncrpc.AppendAcceptedReply(nil, xid)...)
		}, oncrpc.ErrMalformed},
		{"an XID and nothing more", func(xid uint32) []byte { return one(oncrpc.AppendAcceptedReply(nil, xid)[:4]) }, oncrpc.ErrMalformed},
		{"nothing", func(uint32) []byte { return one(nil) }, oncrpc.ErrMalformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := net.Pipe()
				client := NewClient(near, ClientConfig{MaxRecord: 4096})
				defer client.Close()
				go answer(far, c.reply)
				ctx, cancel := context.WithTimeout(t.Context(), DefaultRecordTimeout/2)
				defer cancel()
				if _, err := echoCall(ctx, client, 0, nil); !errors.Is(err, c.want) {
					t.Errorf("%v, want %v", err, c.want)
				}
			})
		})
	}
}

// TestUnknownReply has a reply for which nobody waits come first.
func TestUnknownReply(t *testing.T) {
	near, far := net.Pipe()
	c := NewClient(near, ClientConfig{})
	defer c.Close()
	go answer(far, func(xid uint32) []byte {
		other := oncrpc.AppendAcceptedReply(nil, xid+1)
		mine := oncrpc.AppendAcceptedReply(nil, xid)
		b := append(oncrpc.AppendRecordMark(nil, len(other), true), other...)
		return append(append(b, oncrpc.AppendRecordMark(nil, len(mine), true)...), mine...)
	})
	if _, err := echoCall(t.Context(), c, 0, nil); err != nil {
		t.Error(err)
	}
}

func TestServerVanishes(t *testing.T) {
	near, far := net.Pipe()
	c := NewClient(near, ClientConfig{})
	defer c.Close()
	go func() {
		io.ReadFull(far, make([]byte, 8))
		far.Close()
	}()
	if _, err := echoCall(t.Context(), c, 0, nil); err == nil {
		t.Error("a call without an answer succeeds")
	}
	<-c.done
	if _, err := echoCall(t.Context(), c, 0, nil); err == nil {
		t.Error("a call on a dead connection succeeds")
	}
}

func TestDialFails(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if c, err := Dial(ctx, "127.0.0.1:1", ClientConfig{}); err == nil || c != nil {
		t.Errorf("%v, %v", c, err)
	}
}

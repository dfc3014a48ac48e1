package forward

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// strictly runs a test with an upstream that says it takes and gives 64 MiB,
// and a client that relies on what a server announces.
func strictly(t *testing.T, f func(t *testing.T, through nfstest.Through)) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		server := new(nfstest.Server)
		r := newRig(t, p, nfstest.ServeTCP(t, server))
		c := &nfstest.Client{T: t, Carrier: nfstest.RDMA{Client: r.dial()}}
		f(t, nfstest.Through{Client: c, Server: server, Back: r.settings.InlineSendMax - 28})
		if s := r.Stats(); s.Calls != s.Replies || s.Lost+s.Refused+s.BadReplies+s.Strays != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestMaxData: MAXREAD and MAXWRITE are lowered to what can be carried, in a
// GETATTR and in a listing, and hold to the byte.
func TestMaxData(t *testing.T) {
	strictly(t, func(_ *testing.T, g nfstest.Through) { g.MaxData() })
}

// TestMaxSession: a CREATE_SESSION gives neither side more than can be carried,
// and what it gives holds to the byte.
func TestMaxSession(t *testing.T) {
	strictly(t, func(_ *testing.T, g nfstest.Through) { g.MaxSession() })
}

// TestMaxInfo: the sizes in version 3's FSINFO hold to the byte as well.
func TestMaxInfo(t *testing.T) {
	strictly(t, func(_ *testing.T, g nfstest.Through) { g.MaxInfo() })
}

// sized answers calls of the upstream with messages of a size.
type sized struct{ reply atomic.Int32 }

func (h *sized) ServeRPC(_ context.Context, _ *oncrpc.Call, r *oncrpc.Reply) error {
	r.Stream = append(r.Stream, make([]byte, int(h.reply.Load())-len(r.Stream))...)
	return nil
}

// TestMaxCallback: the back channel's sizes that both sides get hold to the
// byte, and a word more is refused with an answer.
func TestMaxCallback(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		u := newUpstream(t)
		r := newRig(t, p, u.address)
		h := new(sized)
		c := r.dial(answering(h))
		up := u.accept()
		boast := enc(0, nfstest.Boast, nfstest.Boast, nfstest.Boast, 8, 16, 0)
		asked := make(chan []byte, 1)
		go func() {
			call := up.call()
			asked <- bytes.Clone(call.Args.Stream)
			up.send(success(call.XID, enc(0, "", 1, 43, 0, make([]byte, 16), 1, 2, boast, boast)), 0)
		}()
		call := &rpcrdma.Call{
			Program: nfsProgram, Version: 4, Procedure: 1, MaxReply: 512,
			Args: enc("", 1, 1, 43, 0, 9, 1, 2, boast, boast, callbackProgram, 1, 0),
		}
		if err := c.Call(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		const back = 44 + 28 // where the back channel begins in the results
		request, response := xdrWord(call.Reply, back+4), xdrWord(call.Reply, back+8)
		if got := xdrWord(<-asked, 32+28+4); got != request || request > r.settings.InlineSendMax {
			t.Errorf("the upstream was told of %d bytes, the client of %d", got, request)
		}
		for i, c := range []struct {
			request, response uint32
			ok                bool
		}{{request, response, true}, {request + 4, 100, false}, {100, response + 4, false}, {request, response, true}} {
			h.reply.Store(int32(c.response))
			xid := uint32(10 + i)
			up.send(callback(xid, string(make([]byte, c.request-callHeader))), 0)
			got := up.next()
			if c.ok && len(got) != int(c.response) || !c.ok && !bytes.Equal(got, oncrpc.AppendError(nil, xid, errSystem)) {
				t.Errorf("callback of %d bytes, reply of %d: got %d", c.request, c.response, len(got))
			}
		}
	})
}

// callHeader is the size of a call's header without credentials, in bytes.
const callHeader = 40

// TestSmallFirst: several READs of one COMPOUND fill the write chunks in their
// order, also one that would go inline alone (RFC 5666 §3.6).
func TestSmallFirst(t *testing.T) {
	strictly(t, func(t *testing.T, g nfstest.Through) {
		for i, n := range g.Client.SmallFirst() {
			if want := []int{100, 5000, 20, 70001}[i]; n < want || n > want+3 {
				t.Errorf("READ %d: %d bytes in its chunk, want %d", i, n, want)
			}
		}
	})
}

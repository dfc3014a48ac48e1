package connector

import (
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// strictly runs a test with a target that says it takes and gives 64 MiB, and a
// client that relies on what a server announces.
func strictly(t *testing.T, f func(t *testing.T, through nfstest.Through)) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		server := new(nfstest.Server)
		r := newRig(t, p, server, Config{})
		client := r.dial(rpctcp.ClientConfig{MaxRecord: 2 * nfstest.Boast, MaxCalls: 64})
		c := &nfstest.Client{T: t, Carrier: nfstest.TCP{Client: client}}
		f(t, nfstest.Through{Client: c, Server: server, Back: rpcrdma.DefaultSettings().InlineSendMax - 28})
		if s := r.c.Stats(); s.Failed+s.Duplicates+s.Stray != 0 {
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

// TestMaxCallback: calls on the back channel hold to the byte what both sides
// got announced.
func TestMaxCallback(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r, target := newCaller(t, p, Config{Connector: spec.Connector{CallbackTimeout: 10 * time.Second}})
		nc, records := r.raw()
		go answerCalls(t, records, func(b []byte) { _, _ = nc.Write(b) })
		back := <-target.conns
		inline := int(rpcrdma.DefaultSettings().InlineSendMax - 28)
		for _, c := range []struct {
			request, response int
			ok                bool
		}{{inline, inline, true}, {inline + 4, 100, false}, {100, inline + 4, false}, {inline, inline, true}} {
			args := xdr.AppendUint32(nil, uint32(c.response-oncrpc.AcceptedReplySize))
			call := newCall(7, append(args, make([]byte, c.request-40-len(args))...))
			call.MaxReply = min(c.response, inline) - oncrpc.AcceptedReplySize
			err := back.Call(t.Context(), call)
			if (err == nil) != c.ok || c.ok && len(call.Reply)+oncrpc.AcceptedReplySize != c.response {
				t.Errorf("callback of %d bytes, reply of %d: %v, %d bytes of results", c.request, c.response, err, len(call.Reply))
			}
		}
	})
}

// TestSmallFirst: several READs of one COMPOUND come back each with its own data.
func TestSmallFirst(t *testing.T) {
	strictly(t, func(_ *testing.T, g nfstest.Through) { g.Client.SmallFirst() })
}

// TestSeveralWrites: each of several WRITEs in one COMPOUND writes its own data, in
// a call too large for one Send.
func TestSeveralWrites(t *testing.T) {
	strictly(t, func(_ *testing.T, g nfstest.Through) { g.Client.SeveralWrites() })
}

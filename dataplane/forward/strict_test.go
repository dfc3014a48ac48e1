package forward

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// strictly runs a test with an upstream that says it takes and gives 64 MiB,
// and a client that believes what it is told.
func strictly(t *testing.T, f func(t *testing.T, r *rig, server *nfstest.Server, c *nfstest.Client)) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		server := new(nfstest.Server)
		r := newRig(t, p, serveTCP(t, server))
		f(t, r, server, &nfstest.Client{T: t, Carrier: nfstest.RDMA{Client: r.dial()}})
		if s := r.Stats(); s.Calls != s.Replies || s.Lost+s.Refused+s.BadReplies+s.Strays != 0 {
			t.Errorf("%+v", s)
		}
	})
}

// TestMaxData: MAXREAD and MAXWRITE are lowered to what can be carried, in a
// GETATTR and in a listing, and hold to the byte.
func TestMaxData(t *testing.T) {
	strictly(t, func(t *testing.T, _ *rig, server *nfstest.Server, c *nfstest.Client) {
		if read, write := c.Limits(); read != 1<<20 || write != 1<<20 {
			t.Errorf("MAXREAD %d, MAXWRITE %d", read, write)
		}
		if read, write := c.Listed(); read != 1<<20 || write != 1<<20 {
			t.Errorf("listed: MAXREAD %d, MAXWRITE %d", read, write)
		}
		c.MaxData()
		if n := server.LargestRead(); n != 1<<20 {
			t.Errorf("the upstream was asked for %d bytes", n)
		}
	})
}

// TestMaxSession: neither side of a CREATE_SESSION is told of more than can be
// carried, and what they are told holds to the byte.
func TestMaxSession(t *testing.T) {
	strictly(t, func(t *testing.T, r *rig, server *nfstest.Server, c *nfstest.Client) {
		c.Open("strict")
		asked := server.Sessions()[0]
		if n := asked.CsaForeChanAttrs.CaMaxrequestsize; n != rpcrdma.MaxMessage || asked.CsaForeChanAttrs.CaMaxresponsesize != n {
			t.Errorf("the upstream was asked for %+v", asked.CsaForeChanAttrs)
		}
		if n := c.Fore.CaMaxrequestsize; n != rpcrdma.MaxMessage || c.Fore.CaMaxresponsesize != n || c.Fore.CaMaxresponsesizeCached != n || c.Fore.CaMaxoperations != 1024 {
			t.Errorf("the client was granted %+v", c.Fore)
		}
		inline := r.settings.InlineSendMax - 28
		for _, back := range []uint32{asked.CsaBackChanAttrs.CaMaxrequestsize, c.Back.CaMaxrequestsize, c.Back.CaMaxresponsesize, c.Back.CaMaxresponsesizeCached} {
			if back != inline {
				t.Errorf("%d bytes on the back channel, want %d", back, inline)
			}
		}
		c.MaxSession()
	})
}

// TestMaxInfo: so does what FSINFO tells of version 3.
func TestMaxInfo(t *testing.T) {
	strictly(t, func(t *testing.T, _ *rig, server *nfstest.Server, c *nfstest.Client) {
		c3 := &nfstest.Client3{T: t, Carrier: c.Carrier, Root: []byte("root")}
		info := c3.Info()
		for _, n := range []uint32{info.Rtmax, info.Rtpref, info.Wtmax, info.Wtpref, info.Dtpref} {
			if n != 1<<20 {
				t.Errorf("%+v", info)
			}
		}
		if info.Maxfilesize != 1<<62 || info.Rtmult != 4 {
			t.Errorf("%+v", info)
		}
		c3.MaxData([]byte("file"))
		if n := server.LargestRead(); n != 1<<20 {
			t.Errorf("the upstream was asked for %d bytes", n)
		}
	})
}

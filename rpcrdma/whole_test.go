package rpcrdma_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// verified answers with a reply of its own making: a verifier, then as many
// bytes as it is asked for. Procedure 1 is denied.
type verified struct{ seen chan uint32 }

const wholeXID = 0xfedc0001

func (v verified) ServeRPC(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	v.seen <- c.XID
	if c.Procedure == 1 {
		return &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak}
	}
	d := xdr.NewDecoder(c.Args.Stream)
	r.Stream = append(r.Stream[:0], verifiedReply(c.XID, int(d.Uint32()))...)
	return d.Err()
}

// verifiedReply is a reply as RPCSEC_GSS has it, with n bytes of results.
func verifiedReply(xid uint32, n int) []byte {
	b := oncrpc.AppendAcceptedReply(nil, xid)[:12]
	b = xdr.AppendUint32(b, oncrpc.FlavorGSS)
	b = xdr.AppendString(b, "a checksum")
	b = xdr.AppendUint32(b, 0)
	results := make([]byte, n)
	pattern(results, xid)
	return append(b, results...)
}

// TestWhole: replies come as they are, however they travel, under the XID that
// the caller gave.
func TestWhole(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		v := verified{make(chan uint32, 1)}
		b := newBed(t, p, bedConfig{handler: v})
		c, _ := b.dial(nil)
		call := newCall(procNull)
		call.Whole, call.OwnXID = true, true
		for i, n := range []int{0, 100, 8000, 100, 1 << 20} {
			call.XID = wholeXID - uint32(i)
			call.Args, call.MaxReply = xdr.AppendUint32(call.Args[:0], uint32(n)), n+oncrpc.MaxAuthBody
			must(t, c.Call(b.ctx, &call))
			if xid := <-v.seen; xid != call.XID {
				t.Errorf("called with XID %#x, want %#x", xid, call.XID)
			}
			got := call.Reply
			if long := n > 4096; long != (call.Long != nil) {
				t.Fatalf("%d bytes: long is %v", n, !long)
			} else if long {
				got = call.Long.Bytes()[:call.LongLen]
			}
			if !bytes.Equal(got, verifiedReply(call.XID, n)) {
				t.Errorf("%d bytes: not as they were", n)
			}
			if call.Long != nil {
				call.Long.Release()
			}
		}
		call.Procedure, call.MaxReply = 1, 0
		must(t, c.Call(b.ctx, &call))
		<-v.seen
		want := oncrpc.AppendDenied(nil, call.XID, &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak})
		if call.Long != nil || !bytes.Equal(call.Reply, want) {
			t.Errorf("denied: %x, want %x", call.Reply, want)
		}
		should(t, c.Close())
	})
}

// TestXIDInUse: a caller's XID is of no other call in flight, whether that was
// sent or waits for a credit.
func TestXIDInUse(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		gate := &gatedService{entered: make(chan struct{}), open: make(chan struct{})}
		b := newBed(t, p, bedConfig{handler: gate, settings: func(s *rpcrdma.Settings) { s.CreditsMax = 1 }})
		c, _ := b.dial(nil)
		ended := make(chan error, 4)
		begin := func(xid uint32) {
			call := newCall(procNull)
			call.OwnXID, call.XID = true, xid
			go func() { ended <- c.Call(b.ctx, &call) }()
		}
		begin(7)
		<-gate.entered
		refused := func() {
			t.Helper()
			if err := <-ended; !errors.Is(err, rpcrdma.ErrXIDInUse) {
				t.Errorf("XID in use: %v", err)
			}
		}
		begin(7)
		refused()
		begin(8) // one of them waits for the credit of the first
		begin(8)
		refused()
		close(gate.open)
		<-gate.entered
		for range 2 {
			should(t, <-ended)
		}
	})
}

// gatedService tells of each call and answers when it is let.
type gatedService struct{ entered, open chan struct{} }

func (g *gatedService) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error {
	g.entered <- struct{}{}
	<-g.open
	return nil
}

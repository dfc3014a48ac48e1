package interop

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// TestCharacteristics changes the receive size of an rdmad while a client in
// another process makes 64 calls at once. Each change is APPLIED, the client
// sends messages of the new size on the same connection, and no call is lost.
func TestCharacteristics(t *testing.T) {
	r := startRdmadAs(t, "", func(r *rdmad) string {
		return fmt.Sprintf(`control: {listen: %q}
metrics: {listen: ""}
state: {path: ./state}
listeners: [{name: test, provider: softiwarp, address: %q, service: test}]
services: [{name: test, echo: {}}]
settings: {extensions: {v2: required, characteristics: on}}
`, r.control, r.rdma)
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	set := rpcrdma.DefaultSettings()
	set.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics
	set.InlineSendMax = 65536
	c, err := rpcrdma.Dial(ctx, refereetest.Around(t, p), r.rdma, rpcrdma.DialConfig{Settings: &set})
	if err != nil {
		t.Fatal(err)
	}
	var calls sync.WaitGroup
	stop := make(chan struct{})
	for k := range 64 {
		calls.Go(func() {
			for i := k; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				if err := echoed(ctx, c, 700*(i%20)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for _, size := range []uint32{16384, 4096, 65536, 4096} {
		if e := r.effect(t, fmt.Sprintf("inline.receive_size=%d", size)); e.Outcome != "APPLIED" {
			t.Errorf("%d bytes: %+v", size, e)
		}
		for c.Info().InlineSend != size {
			if err := echoed(ctx, c, 0); err != nil {
				t.Fatalf("%d bytes: %v", size, err)
			}
		}
	}
	var shown struct {
		Characteristics struct {
			Own, Peer struct {
				ReceiveSize uint32 `json:"receive_size"`
			}
		}
	}
	up := oneConnection(t, r)
	if up.RPCVersion != 2 || up.Errors != 0 {
		t.Fatalf("connection %+v", up)
	}
	r.ctl(t, &shown, "connections", "show", up.ID)
	if got := shown.Characteristics; got.Own.ReceiveSize != 4096 || got.Peer.ReceiveSize != 4096 {
		t.Errorf("shows %+v", got)
	}
	close(stop)
	calls.Wait()
	if i, s := c.Info(), c.Stats(); i.Connects != 1 || s.Errors+s.BadReplies != 0 {
		t.Errorf("%+v\n%+v", i, s)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
}

// echoed sends n bytes and checks the echo.
func echoed(ctx context.Context, c *rpcrdma.Client, n int) error {
	args := xdr.AppendOpaque(nil, bytes.Repeat([]byte{byte(n)}, n))
	call := rpcrdma.Call{Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho, Args: args, MaxReply: len(args)}
	if err := c.Call(ctx, &call); err != nil {
		return err
	}
	if !bytes.Equal(call.Reply, args) {
		return fmt.Errorf("%d bytes came back as %d others", len(args), len(call.Reply))
	}
	return nil
}

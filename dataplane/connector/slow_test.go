package connector

import (
	"context"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestSlowCalls: a call that the target answers slowly is kept and logged with its client, and
// counts for the connector. A fast one does not.
func TestSlowCalls(t *testing.T) {
	const late = 20 * time.Millisecond
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		target := handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
			if c.Procedure == echo.ProcEcho {
				<-time.After(late)
			}
			return echo.New().ServeRPC(ctx, c, r)
		})
		r := newRig(t, p, target, Config{})
		c := r.dial(rpctcp.ClientConfig{})
		r.d.SetSlowCall(time.Hour)
		for _, proc := range []uint32{echo.ProcNull, echo.ProcEcho} {
			if _, err := echoCall(t.Context(), c, proc, opaque(8)[:12*proc]); err != nil {
				t.Fatal(err)
			}
		}
		r.until(func() bool { return r.d.Connectors()[0].TCP.Replies == 2 }) // they are judged by the limit of then
		if got := r.d.SlowCalls(); got.Total != 0 {
			t.Errorf("fast calls: %+v", got)
		}
		r.d.SetSlowCall(late)
		if _, err := echoCall(t.Context(), c, echo.ProcEcho, opaque(8)); err != nil {
			t.Fatal(err)
		}
		r.log.Await(t, "slow call", "listener=out", `call="ECHO ECHO"`, "server="+r.c.cfg.Target)
		found := false
		for _, one := range r.d.SlowCalls().Calls { // the target's listener finds it too
			if one.Listener != "out" {
				continue
			}
			found = true
			if one.ID != r.outgoing()[0].ID || one.PeerPort != r.outgoing()[0].Client || one.Procedure != echo.ProcEcho || one.Lost ||
				one.Upstream < late || one.Service != one.Upstream || one.Took != one.Receive+one.Service+one.Post+one.Completion {
				t.Errorf("%+v", one)
			}
		}
		if list, _, _ := r.d.Clients().List(0); len(list) != 1 || list[0].Time < 4*late {
			t.Errorf("the client's time, at the connector and at the target's listener: %+v", list)
		}
		if n := r.d.Connectors()[0].SlowCalls; !found || n != 1 {
			t.Errorf("the connector counts %d slow calls, found: %v", n, found)
		}
	})
}

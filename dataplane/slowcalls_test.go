package dataplane

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// slowly is a service that takes a second.
var slowly = handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	time.Sleep(time.Second)
	return echo.New().ServeRPC(ctx, c, r)
})

// TestSlowCalls: slow calls are kept and logged with their connection. The limit can change
// while a connection is up.
func TestSlowCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlane(t, Config{SlowCall: 500 * time.Millisecond})
		addr := p.listen("a", slowly)
		p.Start()
		c, up := p.dial(addr, nil)
		call := func() {
			t.Helper()
			if err := null(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		call()
		got := p.SlowCalls()
		if len(got.Calls) != 1 || got.Total != 1 || got.Limit != 500*time.Millisecond {
			t.Fatalf("%+v", got)
		}
		one := got.Calls[0]
		if one.ID != up.ID || one.Listener != "a" || one.PeerPort != up.PeerPort || one.Name() != "ECHO NULL" || one.Service != time.Second || one.Took != time.Second || one.XID == 0 {
			t.Errorf("%+v", one)
		}
		const want = ` call="ECHO NULL" program=537002057 version=1 procedure=0 took=1s receive=0s rdma_read=0s service=1s post=0s completion=0s lost=false`
		if lines := p.log.Lines("slow call"); len(lines) != 1 || !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], want) || !strings.Contains(lines[0], "peer="+up.PeerPort.String()) {
			t.Errorf("logged %q", lines)
		}
		if list, _, _ := p.Clients().List(0); len(list) != 1 || list[0].Time != time.Second || list[0].Address != up.PeerPort.Addr() {
			t.Errorf("the client's time: %+v", list)
		}
		for _, limit := range []time.Duration{2 * time.Second, 0} {
			p.SetSlowCall(limit)
			call()
		}
		if got := p.SlowCalls(); got.Total != 1 || got.Limit != 0 {
			t.Errorf("with other limits: %+v", got)
		}
		p.SetSlowCall(time.Second)
		call()
		if got := p.SlowCalls(); got.Total != 2 || !got.Calls[0].Arrived.After(got.Calls[1].Arrived) {
			t.Errorf("the newest is not the first: %+v", got)
		}
	})
}

// TestSlowCallsAreBounded: the newest are kept.
func TestSlowCallsAreBounded(t *testing.T) {
	p := newPlane(t, Config{})
	for _, n := range []uint32{maxSlowCalls, 10, 2 * maxSlowCalls} {
		before := p.SlowCalls().Total
		for i := range n {
			p.slow.add(SlowCall{SlowCall: rpcrdma.SlowCall{XID: uint32(before) + i}})
		}
		got := p.SlowCalls()
		if len(got.Calls) != maxSlowCalls || got.Total != before+uint64(n) {
			t.Fatalf("%d calls of %d", len(got.Calls), got.Total)
		}
		for i, c := range got.Calls {
			if want := uint32(got.Total) - 1 - uint32(i); c.XID != want {
				t.Fatalf("call %d is %d, not %d", i, c.XID, want)
			}
		}
	}
}

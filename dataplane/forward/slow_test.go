package forward

import (
	"context"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// handlerFunc is a Handler that is a function.
type handlerFunc func(context.Context, *oncrpc.Call, *oncrpc.Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return f(ctx, c, r)
}

// TestSlowCalls: a slow call shows how much of its time the upstream took.
func TestSlowCalls(t *testing.T) {
	const late = 20 * time.Millisecond
	upstream := nfstest.ServeTCP(t, handlerFunc(func(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		<-time.After(late)
		return echo.New().ServeRPC(ctx, c, r)
	}))
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		r := newRig(t, p, upstream)
		r.d.SetSlowCall(late)
		c := r.dial()
		if err := c.Call(t.Context(), &rpcrdma.Call{Program: echo.Program, Version: echo.Version}); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		r.down() // then the reply has left
		got := r.d.SlowCalls().Calls
		if len(got) != 1 || got[0].Server != "upstream" || got[0].Upstream < late || got[0].Service < got[0].Upstream {
			t.Errorf("%+v", got)
		}
		if n := r.d.Stats()[0].SlowCalls; n != 1 {
			t.Errorf("the listener counts %d", n)
		}
	})
}

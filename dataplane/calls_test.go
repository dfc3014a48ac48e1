package dataplane

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

type handlerFunc func(context.Context, *oncrpc.Call, *oncrpc.Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
	return f(ctx, c, r)
}

// anyPlace is a place in a table without other holders.
func anyPlace(t *testing.T) *connlimit.Place {
	t.Helper()
	place, err := connlimit.New(time.Now(), connlimit.Config{}).Admit(time.Now(), connlimit.Key{}, connlimit.Ordinary, newcomer{})
	if err != nil {
		t.Fatal(err)
	}
	return place
}

// noBuffer is a result without memory.
type noBuffer struct{}

func (noBuffer) Bytes() []byte { return nil }
func (noBuffer) Release()      {}

func TestCallsAreMeasured(t *testing.T) {
	fail := errors.New("no")
	var err error
	m := &handler{measured: new(measured), place: anyPlace(t), next: handlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		r.Stream = append(r.Stream, 1, 2, 3, 4)
		r.Items = append(r.Items, oncrpc.ReplyItem{Len: 30, Buf: noBuffer{}})
		c.Args.Claim()
		return err
	})}
	call := &oncrpc.Call{Args: oncrpc.Payload{Stream: make([]byte, 12), Items: []oncrpc.Item{{Data: make([]byte, 20)}}}}
	if err := oncrpc.Serve(t.Context(), m, call, new(oncrpc.Reply)); err != nil {
		t.Fatal(err)
	}
	err = fail
	if got := oncrpc.Serve(t.Context(), m, call, new(oncrpc.Reply)); !errors.Is(got, fail) {
		t.Errorf("error %v is not the handler's", got)
	}
	l := &Listener{endpoint: endpoint{calls: m.measured}}
	var s ListenerStats
	l.measure(&s)
	if s.Failed != 1 || s.ServiceTime.Count != 2 {
		t.Errorf("%d failed of %d", s.Failed, s.ServiceTime.Count)
	}
	if s.CallSize.Count != 2 || s.CallSize.Sum != 64 || s.ReplySize.Count != 1 || s.ReplySize.Sum != 58 {
		t.Errorf("calls %d of %d bytes, replies %d of %d bytes", s.CallSize.Count, s.CallSize.Sum, s.ReplySize.Count, s.ReplySize.Sum)
	}
}

func TestMeasuringAllocatesNothing(t *testing.T) {
	h := &handler{measured: new(measured), place: anyPlace(t), next: handlerFunc(func(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return nil })}
	call, reply := new(oncrpc.Call), new(oncrpc.Reply)
	ctx := context.Background()
	if n := testing.AllocsPerRun(1000, func() {
		if err := oncrpc.Serve(ctx, h, call, reply); err != nil {
			t.Error(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations per call", n)
	}
}

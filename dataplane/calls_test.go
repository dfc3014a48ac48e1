package dataplane

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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

// buffer is the memory of a result.
type buffer []byte

func (b buffer) Bytes() []byte { return b }
func (buffer) Release()        {}

func TestCallsAreMeasured(t *testing.T) {
	fail := errors.New("no")
	var err error
	m := &handler{measured: new(measured), place: anyPlace(t), next: handlerFunc(func(_ context.Context, c *oncrpc.Call, r *oncrpc.Reply) error {
		r.Stream = append(r.Stream, 1, 2, 3, 4)
		r.Items = append(r.Items, oncrpc.ReplyItem{Pos: len(r.Stream), Len: 30, Buf: make(buffer, 30)})
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
	l := &Listener{endpoint: endpoint{calls: m.measured}, receivers: new(receivers)}
	var s ListenerStats
	l.measure(&s)
	if s.Failed != 1 || s.ServiceTime.Count != 2 {
		t.Errorf("%d failed of %d", s.Failed, s.ServiceTime.Count)
	}
	if s.CallSize.Count != 2 || s.CallSize.Sum != 64 || s.ReplySize.Count != 1 || s.ReplySize.Sum != 58 {
		t.Errorf("calls %d of %d bytes, replies %d of %d bytes", s.CallSize.Count, s.CallSize.Sum, s.ReplySize.Count, s.ReplySize.Sum)
	}
}

// answers is a transport that takes later answers.
type answers struct {
	ctx   context.Context
	call  oncrpc.Call
	reply oncrpc.Reply
}

func (a *answers) Answer(err error) { _ = oncrpc.Answer(a.ctx, &a.call, &a.reply, err) }

// TestLaterCallsAreMeasured: a call that is answered later is in flight until then, and its
// time lasts until then.
func TestLaterCallsAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		h := &handler{measured: new(measured), place: anyPlace(t), next: handlerFunc(func(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return oncrpc.ErrLater })}
		for i, err := range []error{nil, errors.New("no"), context.Canceled} {
			a := &answers{ctx: ctx}
			a.call.Later = a
			_ = oncrpc.Serve(ctx, h, &a.call, &a.reply)
			time.Sleep(time.Second)
			if n := h.inFlight.Load(); n != 1 {
				t.Errorf("%d in flight", n)
			}
			if i == 2 {
				cancel()
			}
			a.Answer(err)
		}
		l := &Listener{endpoint: endpoint{calls: h.measured}, receivers: new(receivers)}
		var s ListenerStats
		l.measure(&s)
		if s.Failed != 2 || s.ServiceTime.Count != 3 || s.ServiceTime.Sum != uint64(3*time.Second) || s.ReplySize.Count != 1 {
			t.Errorf("%d failed of %d in %d ns, %d replies", s.Failed, s.ServiceTime.Count, s.ServiceTime.Sum, s.ReplySize.Count)
		}
		if n, lost, spent := h.inFlight.Load(), h.lost.Load(), h.spent.Load(); n != 0 || lost != 1 || spent != int64(3*time.Second) {
			t.Errorf("%d in flight, %d lost, %d ns spent", n, lost, spent)
		}
	})
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

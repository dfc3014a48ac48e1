package oncrpc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// laterTransport ends a call as a transport does.
type laterTransport struct {
	ctx   context.Context
	call  *Call
	reply *Reply
	err   error
}

func (l *laterTransport) Answer(err error) { l.err = Answer(l.ctx, l.call, l.reply, err) }

// watched notes the ends of calls.
type watched struct {
	name string
	log  *[]string
	next Handler
}

func (w *watched) ServeRPC(ctx context.Context, c *Call, r *Reply) error {
	r.Watch(w)
	return w.next.ServeRPC(ctx, c, r)
}

func (w *watched) Served(_ context.Context, c *Call, r *Reply, began, ended time.Time, err error) {
	*w.log = append(*w.log, fmt.Sprintf("%s: %d, %d bytes, %v, took %v", w.name, c.XID, len(r.Stream), err, ended.Sub(began) >= 0))
}

// TestLater: a call that is answered later ends as others do, whether that is before
// ServeRPC returned or after: with the same replies, and the watchers called once, the
// inner one first.
func TestLater(t *testing.T) {
	odd := errors.New("odd")
	accept := &AcceptError{Stat: ProgUnavail}
	success := xdr.AppendUint32(AppendAcceptedReply(nil, 7), 42)
	for name, c := range map[string]struct {
		items []Item
		with  error // as ServeRPC or Answer says
		err   error
		want  []byte
	}{
		"success":        {nil, nil, nil, success},
		"error":          {nil, odd, odd, AppendError(nil, 7, odd)},
		"accept error":   {nil, accept, accept, AppendError(nil, 7, accept)},
		"unclaimed item": {[]Item{{Data: []byte("data")}}, nil, errGarbageArgs, AppendError(nil, 7, errGarbageArgs)},
	} {
		for _, when := range []string{"at once", "before", "after"} {
			t.Run(name+"/"+when, func(t *testing.T) {
				call, reply := &Call{XID: 7, Args: Payload{Items: c.items}}, new(Reply)
				later := &laterTransport{ctx: t.Context(), call: call, reply: reply}
				call.Later = later
				var log []string
				service := handlerFunc(func(_ context.Context, call *Call, r *Reply) error {
					r.Stream = xdr.AppendUint32(r.Stream, 42)
					switch when {
					case "at once":
						return c.with
					case "before":
						call.Later.Answer(c.with)
					}
					return ErrLater
				})
				for range 2 { // the second call with the storage of the first
					log = nil
					err := Serve(t.Context(), &watched{"outer", &log, &watched{"inner", &log, service}}, call, reply)
					switch when {
					case "after":
						if len(log) > 0 {
							t.Errorf("already over: %v", log)
						}
						later.Answer(c.with)
						fallthrough
					case "before":
						if err != ErrLater { //nolint:errorlint // the very value
							t.Errorf("Serve: %v", err)
						}
						err = later.err
					}
					if !errors.Is(err, c.err) || !bytes.Equal(reply.Stream, c.want) {
						t.Errorf("%v, reply %x, want %v, %x", err, reply.Stream, c.err, c.want)
					}
					said := fmt.Sprintf(": 7, %d bytes, %v, took true", len(success), c.err)
					if want := []string{"inner" + said, "outer" + said}; !slices.Equal(log, want) {
						t.Errorf("watchers saw %q, want %q", log, want)
					}
				}
			})
		}
	}
}

// TestNotLater: a transport that takes no later answers gives an error at once.
func TestNotLater(t *testing.T) {
	reply := new(Reply)
	err := Serve(t.Context(), handlerFunc(func(context.Context, *Call, *Reply) error { return ErrLater }), &Call{XID: 7}, reply)
	if !errors.Is(err, errNotLater) || !bytes.Equal(reply.Stream, AppendError(nil, 7, err)) {
		t.Errorf("%v, reply %x", err, reply.Stream)
	}
}

// TestLaterAllocatesNothing: with watchers.
func TestLaterAllocatesNothing(t *testing.T) {
	call, reply := &Call{XID: 7}, new(Reply)
	later := &laterTransport{ctx: t.Context(), call: call, reply: reply}
	call.Later = later
	h := &quiet{handlerFunc(func(context.Context, *Call, *Reply) error { return ErrLater })}
	if n := testing.AllocsPerRun(100, func() {
		if err := Serve(later.ctx, h, call, reply); !errors.Is(err, ErrLater) {
			t.Error(err)
		}
		later.Answer(nil)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// quiet watches calls and notes nothing.
type quiet struct{ next Handler }

func (q *quiet) ServeRPC(ctx context.Context, c *Call, r *Reply) error {
	r.Watch(q)
	return q.next.ServeRPC(ctx, c, r)
}

func (*quiet) Served(context.Context, *Call, *Reply, time.Time, time.Time, error) {}

package oncrpc

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

type handlerFunc func(context.Context, *Call, *Reply) error

func (f handlerFunc) ServeRPC(ctx context.Context, c *Call, r *Reply) error { return f(ctx, c, r) }

// buffer counts its releases.
type buffer struct{ released int }

func (b *buffer) Bytes() []byte { return make([]byte, 8) }
func (b *buffer) Release()      { b.released++ }

func TestServe(t *testing.T) {
	odd := errors.New("odd")
	accept := &AcceptError{Stat: GarbageArgs}
	denied := &DeniedError{Stat: AuthError, Auth: AuthTooWeak}
	for _, c := range []struct {
		name   string
		result error
		want   []byte
	}{
		{"success", nil, append(AppendAcceptedReply(nil, 7), 0, 0, 0, 42)},
		{"accept error", accept, AppendAcceptError(nil, 7, accept)},
		{"denied", denied, AppendDenied(nil, 7, denied)},
		{"any other error", odd, AppendAcceptError(nil, 7, &AcceptError{Stat: SystemErr})},
		{"nil pointer", (*AcceptError)(nil), AppendAcceptError(nil, 7, &AcceptError{Stat: SystemErr})},
	} {
		t.Run(c.name, func(t *testing.T) {
			var buf buffer
			reply := Reply{Stream: []byte("left from the call before")}
			err := Serve(t.Context(), handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
				r.Stream = xdr.AppendUint32(r.Stream, 42)
				r.AppendItem(&buf, 8)
				return c.result
			}), &Call{XID: 7}, &reply)
			if !errors.Is(err, c.result) {
				t.Errorf("error %v, want %v", err, c.result)
			}
			if !bytes.Equal(reply.Stream, c.want) {
				t.Errorf("reply %x, want %x", reply.Stream, c.want)
			}
			if failed := c.result != nil; failed != (buf.released == 1) || failed == (len(reply.Items) == 1) {
				t.Errorf("%d items, %d releases", len(reply.Items), buf.released)
			}
		})
	}
}

func TestServePanic(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)

	var buf buffer
	var reply Reply
	call := &Call{XID: 7, Program: 100003, Version: 3, Procedure: 6, Peer: netip.MustParseAddrPort("192.0.2.7:999")}
	err := Serve(t.Context(), handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
		r.AppendItem(&buf, 8)
		panic("boom")
	}), call, &reply)
	if p, ok := errors.AsType[*PanicError](err); !ok || p.Value != "boom" {
		t.Errorf("error %v", err)
	}
	if want := AppendAcceptError(nil, 7, &AcceptError{Stat: SystemErr}); !bytes.Equal(reply.Stream, want) {
		t.Errorf("reply %x, want %x", reply.Stream, want)
	}
	if buf.released != 1 || len(reply.Items) != 0 {
		t.Errorf("%d items, %d releases", len(reply.Items), buf.released)
	}
	line := log.String()
	if strings.Count(line, "\n") != 1 {
		t.Errorf("not one log line:\n%s", line)
	}
	for _, want := range []string{"peer=192.0.2.7:999", "program=100003", "version=3", "procedure=6", "boom", "serve_test.go"} {
		if !strings.Contains(line, want) {
			t.Errorf("log lacks %q:\n%s", want, line)
		}
	}
}

func TestServeDoesNotAllocate(t *testing.T) {
	var mux Mux
	mux.Handle(1, 1, handlerFunc(func(_ context.Context, _ *Call, r *Reply) error {
		r.Stream = xdr.AppendUint32(r.Stream, 42)
		return nil
	}))
	reply := Reply{Stream: make([]byte, 0, 64)}
	call := &Call{Program: 1, Version: 1}
	ctx := t.Context()
	var err error
	if allocs := testing.AllocsPerRun(100, func() { err = Serve(ctx, &mux, call, &reply) }); allocs != 0 || err != nil {
		t.Errorf("%v allocations, want none; %v", allocs, err)
	}
}

func TestMux(t *testing.T) {
	var mux Mux
	for _, version := range []uint32{4, 2, 3} {
		mux.Handle(100003, version, handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
			r.Stream = xdr.AppendUint32(r.Stream, version)
			return nil
		}))
	}
	for _, c := range []struct {
		program, version uint32
		want             AcceptError // Success: the version answers
	}{
		{100003, 2, AcceptError{}},
		{100003, 3, AcceptError{}},
		{100003, 4, AcceptError{}},
		{100003, 1, AcceptError{Stat: ProgMismatch, Low: 2, High: 4}},
		{100003, 5, AcceptError{Stat: ProgMismatch, Low: 2, High: 4}},
		{100005, 3, AcceptError{Stat: ProgUnavail}},
	} {
		var reply Reply
		err := mux.ServeRPC(t.Context(), &Call{Program: c.program, Version: c.version}, &reply)
		got, ok := errors.AsType[*AcceptError](err)
		if c.want.Stat == Success {
			if err != nil || !bytes.Equal(reply.Stream, xdr.AppendUint32(nil, c.version)) {
				t.Errorf("%d.%d: %x, %v", c.program, c.version, reply.Stream, err)
			}
		} else if !ok || *got != c.want {
			t.Errorf("%d.%d: %v, want %v", c.program, c.version, err, &c.want)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a second handler is taken")
		}
	}()
	mux.Handle(100003, 3, nil)
}

// TestServeUnclaimed: success with an item that the handler did not decode is no
// success.
func TestServeUnclaimed(t *testing.T) {
	for name, c := range map[string]struct {
		pos    int
		handle func(c *Call)
		ok     bool
	}{
		"decoded":           {4, func(c *Call) { d := xdr.NewDecoder(c.Args.Stream); c.Args.Opaque(&d, 8) }, true},
		"in parts":          {4, func(c *Call) { d := xdr.NewDecoder(c.Args.Stream); c.Args.Parts(nil, &d, 8) }, true},
		"claimed otherwise": {4, func(c *Call) { c.Args.Claim() }, true},
		"not looked at":     {4, func(*Call) {}, false},
		"at another place":  {8, func(c *Call) { d := xdr.NewDecoder(c.Args.Stream); c.Args.Opaque(&d, 8) }, false},
		"over the limit":    {4, func(c *Call) { d := xdr.NewDecoder(c.Args.Stream); c.Args.Opaque(&d, 4) }, false},
	} {
		var reply Reply
		call := &Call{XID: 7, Args: Payload{
			Stream: []byte{0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0}, Items: []Item{{Pos: c.pos, Data: []byte("hello")}},
		}}
		err := Serve(t.Context(), handlerFunc(func(_ context.Context, call *Call, _ *Reply) error {
			c.handle(call)
			return nil
		}), call, &reply)
		want := AppendAcceptedReply(nil, 7)
		if !c.ok {
			want = AppendAcceptError(nil, 7, &AcceptError{Stat: GarbageArgs})
		}
		if (err == nil) != c.ok || !bytes.Equal(reply.Stream, want) {
			t.Errorf("%s: %v, %x", name, err, reply.Stream)
		}
	}
}

// lent is memory that is used for something else after its release.
type lent []byte

func (l lent) Bytes() []byte { return l }
func (l lent) Release()      { copy(l, "another reply's") }

// TestErrorsDoNotUseStorage: an error is not written to the memory that the handler has given
// back with its reply.
func TestErrorsDoNotUseStorage(t *testing.T) {
	for name, end := range map[string]func(*Call) error{
		"error":                func(*Call) error { return errors.New("odd") },
		"panic":                func(*Call) error { panic("boom") },
		"unclaimed":            func(c *Call) error { c.Args.Items = []Item{{Pos: 4, Data: []byte("x")}}; return nil },
		"answer of SYSTEM_ERR": func(*Call) error { return &AcceptError{Stat: SystemErr} },
	} {
		memory := make(lent, 64)
		var reply Reply
		err := Serve(t.Context(), handlerFunc(func(_ context.Context, c *Call, r *Reply) error {
			r.Storage, r.Stream = memory, append(memory[:0], r.Stream...)
			return end(c)
		}), &Call{XID: 7}, &reply)
		if want := AppendError(nil, 7, err); err == nil || !bytes.Equal(reply.Stream, want) {
			t.Errorf("%s: %v, reply %x, want %x", name, err, reply.Stream, want)
		}
		if !bytes.HasPrefix(memory, []byte("another reply's")) {
			t.Errorf("%s: wrote %x to memory that was given back", name, memory)
		}
	}
}

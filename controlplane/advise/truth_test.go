package advise_test

import (
	"testing"

	"github.com/rdmad/rdmad/controlplane/advise"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// workload is what a client does over and over, on connections that take and
// make Sends of 16 KiB and send inline whatever fits, as kernels do.
type workload struct {
	proc uint32
	size int
	room int // for the data that is read, if it is more
}

const rounds = 200

// run makes the calls of w on a new connection to a server with settings s.
// It gives the connection as the server saw it in the end, and what the calls
// cost the client.
func (w workload) run(t *testing.T, s rpcrdma.Settings) (dataplane.ConnInfo, rpcrdma.Stats) {
	t.Helper()
	ctx := t.Context()
	fabric := refereetest.Around(t, loopback.New(loopback.Config{}))
	d := dataplane.New(dataplane.Config{Resolver: func(dataplane.ConnKey) *rpcrdma.Settings { return &s }})
	listener, err := d.PrepareListener(ctx, dataplane.ListenerConfig{Name: "l", Provider: fabric, Address: "127.0.0.1:0", Service: "echo", Handler: echo.New()})
	if err != nil {
		t.Fatal(err)
	}
	listener.Enter()
	d.Start()
	defer func() {
		if err := d.Shutdown(ctx); err != nil {
			t.Error(err)
		}
	}()
	mine := rpcrdma.DefaultSettings()
	mine.InlineSendMax, mine.InlineReceiveSize, mine.DDPMinChunk = 16<<10, 16<<10, 1<<20
	c, err := rpcrdma.Dial(ctx, fabric, listener.Info().Address.String(), rpcrdma.DialConfig{Settings: &mine})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range rounds {
		w.call(t, c)
	}
	return d.Connections()[0], c.Stats()
}

func (w workload) call(t *testing.T, c *rpcrdma.Client) {
	t.Helper()
	room := max(w.size, w.room)
	buf, err := c.Alloc(t.Context(), room)
	if err != nil {
		t.Fatal(err)
	}
	defer buf.Release()
	call := rpcrdma.Call{Program: echo.Program, Version: echo.Version, Procedure: w.proc, MaxReply: 2 * xdr.Unit}
	if w.proc == echo.ProcRead {
		call.Args = xdr.AppendUint32(nil, uint32(w.size))
		call.Results = []rpcrdma.Result{{Buf: buf, Max: room}}
	} else {
		call.Args = xdr.AppendUint32(nil, uint32(w.size))
		call.Items = []oncrpc.ReplyItem{{Pos: xdr.Unit, Buf: buf, Len: w.size}}
	}
	if err := c.Call(t.Context(), &call); err != nil {
		t.Fatal(err)
	}
}

// TestAdviceComesTrue follows the advice and does the same again: what it
// said would be saved is saved, and then there is nothing left to advise.
func TestAdviceComesTrue(t *testing.T) {
	for name, c := range map[string]struct {
		w     workload
		key   settings.Key
		apply func(*rpcrdma.Settings, *advise.Advice)
		ops   func(*rpcrdma.Stats) uint64
	}{
		"replies": {
			workload{proc: echo.ProcRead, size: 6000}, settings.InlineSendMax,
			func(s *rpcrdma.Settings, a *advise.Advice) { s.InlineSendMax = a.Value },
			func(s *rpcrdma.Stats) uint64 { return s.RDMAWrites },
		},
		"replies shorter than what clients have room for": {
			workload{proc: echo.ProcRead, size: 6000, room: 64 << 10}, settings.InlineSendMax,
			func(s *rpcrdma.Settings, a *advise.Advice) { s.InlineSendMax, s.DDPMinChunk = a.Value, a.MinChunk },
			func(s *rpcrdma.Stats) uint64 { return s.RDMAWrites },
		},
		"calls": {
			workload{proc: echo.ProcWrite, size: 7000}, settings.InlineReceiveSize,
			func(s *rpcrdma.Settings, a *advise.Advice) { s.InlineReceiveSize = a.Value },
			func(s *rpcrdma.Stats) uint64 { return s.RDMAReads },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := rpcrdma.DefaultSettings()
			before, cost := c.w.run(t, s)
			got := advise.For([]dataplane.ConnInfo{before})
			if len(got) != 1 || got[0].Key != c.key {
				t.Fatalf("advised %+v", got)
			}
			a := got[0]
			if a.Operations != c.ops(&before.Stats) || a.Operations != rounds || a.Registrations != cost.Registrations {
				t.Errorf("%+v, but %d operations and %d registrations", a, c.ops(&before.Stats), cost.Registrations)
			}
			c.apply(&s, &a)
			after, cost := c.w.run(t, s)
			if n := c.ops(&after.Stats); n != 0 || cost.Registrations != 0 && c.w.room == 0 { // clients register all their room
				t.Errorf("with %d: still %d operations and %d registrations", a.Value, n, cost.Registrations)
			}
			if again := advise.For([]dataplane.ConnInfo{after}); len(again) != 0 {
				t.Errorf("then advised %+v", again)
			}
		})
	}
}

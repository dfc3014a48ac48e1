package forward

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/dataplane/perconn"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
)

// bindings of all programs that have one.
var bindings = ulb.NewRegistry(nfs.Bindings()...)

// Forwarder is the service. All methods may be called from any goroutine.
type Forwarder struct {
	cfg   Config
	log   *slog.Logger
	gate  gate
	stats counters
}

var _ perconn.Opener = (*Forwarder)(nil)

// New makes a forwarder. It connects to nobody before OpenConn.
func New(cfg Config) *Forwarder {
	cfg = cfg.withDefaults()
	return &Forwarder{cfg: cfg, log: cfg.Logger.With("upstream", cfg.Address)}
}

// errNoConn answers calls that come without a connection of their own.
var errNoConn = errors.New("forward: a call outside a connection")

// ServeRPC implements oncrpc.Handler for calls that did not come by OpenConn:
// SYSTEM_ERR.
func (f *Forwarder) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return errNoConn }

// OpenConn implements perconn.Opener: it connects to the upstream, or says at
// once that this failed shortly before.
func (f *Forwarder) OpenConn(ctx context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	if err := f.gate.enter(time.Now()); err != nil {
		f.stats.heldOff.Add(1)
		return nil, fmt.Errorf("upstream %s: %w", f.cfg.Address, err)
	}
	f.stats.dials.Add(1)
	nc, err := f.dial(ctx)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		f.gate.abandon()
		return nil, ctx.Err()
	}
	f.tell(f.gate.leave(time.Now(), err), err)
	if err != nil {
		f.stats.dialFailures.Add(1)
		return nil, fmt.Errorf("upstream %s: %w", f.cfg.Address, err)
	}
	f.stats.connections.Add(1)
	return newSession(f, peer, nc), nil
}

// tell logs that the upstream went away or came back.
func (f *Forwarder) tell(c change, err error) {
	switch c {
	case lost:
		f.log.Error("upstream can't be reached; clients are rejected until it can: is the server up, and the address right?", "error", err)
	case found:
		f.log.Info("upstream can be reached again")
	}
}

// counters are what Stats gives.
type counters struct {
	dials, dialFailures, heldOff  atomic.Uint64
	connections                   atomic.Int64
	lost                          atomic.Uint64
	calls, replies, refused       atomic.Uint64
	badReplies, strays, timeouts  atomic.Uint64
	callbacks, callbacksRefused   atomic.Uint64
	placed, unpooled, placedBytes atomic.Uint64
}

// Stats are a forwarder's counters. All but Connections only grow.
type Stats struct {
	Dials        uint64 // of the upstream
	DialFailures uint64 // of these
	HeldOff      uint64 // clients rejected without dialling, as it failed shortly before
	Connections  int64  // to the upstream, up
	Lost         uint64 // that the upstream ended, or that had to be ended for what it did

	Calls      uint64 // sent to the upstream
	Replies    uint64 // of it, to these
	Refused    uint64 // calls not sent, as their items don't fit their arguments
	BadReplies uint64 // that could not be taken apart: SYSTEM_ERR to the client
	Strays     uint64 // replies to no call: late, twice, made up
	Timeouts   uint64 // calls not answered in time

	Callbacks        uint64 // calls of the upstream
	CallbacksRefused uint64 // of these, that did not come to a reply of the client

	Placed      uint64 // results put straight into memory that replies are sent from
	PlacedBytes uint64
	Unpooled    uint64 // of these, for which the pool had no memory in time
}

// Stats are the counters so far.
func (f *Forwarder) Stats() Stats {
	c := &f.stats
	return Stats{
		Dials: c.dials.Load(), DialFailures: c.dialFailures.Load(), HeldOff: c.heldOff.Load(),
		Connections: c.connections.Load(), Lost: c.lost.Load(),
		Calls: c.calls.Load(), Replies: c.replies.Load(), Refused: c.refused.Load(),
		BadReplies: c.badReplies.Load(), Strays: c.strays.Load(), Timeouts: c.timeouts.Load(),
		Callbacks: c.callbacks.Load(), CallbacksRefused: c.callbacksRefused.Load(),
		Placed: c.placed.Load(), PlacedBytes: c.placedBytes.Load(), Unpooled: c.unpooled.Load(),
	}
}

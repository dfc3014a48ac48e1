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

// bindings holds the bindings of all programs that have one.
var bindings = ulb.NewRegistry(nfs.Bindings()...)

// Forwarder is the service. All methods may be called from any goroutine.
type Forwarder struct {
	cfg   Config
	log   *slog.Logger
	gate  gate
	stats counters
	// least and enough are sizes, in bytes, of the parts of a result that go to the client
	// before the upstream has sent all of it: at once if a part is enough, else when the
	// upstream pauses.
	least, enough int
	// life is how long a client's connection lasts at least.
	life time.Duration
}

var _ perconn.Opener = (*Forwarder)(nil)

// New makes a forwarder. It connects only in OpenConn.
func New(cfg Config) *Forwarder {
	cfg = cfg.withDefaults()
	return &Forwarder{cfg: cfg, log: cfg.Logger.With("upstream", cfg.Address), least: leastPart, enough: enoughPart, life: leastLife}
}

// errNoConn answers calls without a connection of their own.
var errNoConn = errors.New("forward: a call outside a connection")

// ServeRPC implements oncrpc.Handler for calls that did not come through OpenConn. It
// answers SYSTEM_ERR.
func (f *Forwarder) ServeRPC(context.Context, *oncrpc.Call, *oncrpc.Reply) error { return errNoConn }

// OpenConn implements perconn.Opener. It connects to the upstream. If the upstream could not be reached
// shortly before, it fails at once.
func (f *Forwarder) OpenConn(ctx context.Context, peer netip.AddrPort) (perconn.Handler, error) {
	if err := f.gate.enter(time.Now()); err != nil {
		f.stats.heldOff.Add(1)
		return nil, fmt.Errorf("upstream %s: %w", f.cfg.Address, err)
	}
	f.stats.dials.Add(1)
	nc, err := f.dial(ctx, f.cfg.ReservedPort)
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		f.gate.abandon()
		return nil, ctx.Err()
	}
	if isOurs(err) {
		f.gate.abandon()
	} else if f.gate.leave(time.Now(), err) {
		f.tell(err)
	}
	if err != nil {
		f.stats.dialFailures.Add(1)
		return nil, fmt.Errorf("upstream %s: %w", f.cfg.Address, err)
	}
	f.stats.connections.Add(1)
	return newSession(f, peer, nc), nil
}

// tell logs that the upstream was lost, or is back if err is nil.
func (f *Forwarder) tell(err error) {
	if err != nil {
		f.log.Error("upstream unreachable; clients are rejected until it is reachable: check that the server is up and its address is right", "error", err)
	} else {
		f.log.Info("upstream is reachable again")
	}
}

// counters are the counters behind Stats.
type counters struct {
	dials, dialFailures, heldOff  atomic.Uint64
	connections                   atomic.Int64
	lost                          atomic.Uint64
	calls, replies, refused       atomic.Uint64
	badReplies, strays, timeouts  atomic.Uint64
	callbacks, callbacksRefused   atomic.Uint64
	placed, unpooled, placedBytes atomic.Uint64
}

// Stats are a forwarder's counters. All except Connections only grow.
type Stats struct {
	Dials        uint64 // of the upstream
	DialFailures uint64 // of these
	HeldOff      uint64 // clients rejected without a dial, because one failed shortly before
	Connections  int64  // to the upstream, up
	Lost         uint64 // connections that the upstream ended, or that ended because of its behavior

	Calls      uint64 // sent to the upstream
	Replies    uint64 // of the upstream, to these calls
	Refused    uint64 // calls not sent, because their items don't fit their arguments
	BadReplies uint64 // replies that could not be parsed: SYSTEM_ERR to the client
	Strays     uint64 // replies to no call: late, duplicate or invented
	Timeouts   uint64 // calls not answered in time

	Callbacks        uint64 // calls of the upstream
	CallbacksRefused uint64 // of these, without a reply from the client

	Placed      uint64 // results read directly into memory that replies are sent from
	PlacedBytes uint64
	Unpooled    uint64 // of these, for which the pool had no memory in time
}

// Stats returns the counters so far.
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

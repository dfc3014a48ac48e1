package driver

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// IDState is the state of an identifier.
type IDState uint8

// States of an identifier.
const (
	IDResolved   IDState = iota // active side, not connected
	IDRequested                 // passive side, not answered
	IDConnecting                // Connect, Accept or Reject is in progress
	IDConnected
	IDFailed // refused, rejected, timed out
	IDClosed
)

// QueuePair is the part of a provider's queue pair that an identifier uses.
type QueuePair interface {
	comparable
	verbs.QP
	// End fails the queue pair for a reason.
	End(cause error)
	// Disconnect starts an orderly end.
	Disconnect() error
}

// ID is a connection identifier with its queue pair. It implements rdmacm.ID, except
// Device, Connect, Accept, Reject and Close.
type ID[Q QueuePair] struct {
	ended chan struct{}

	mu            sync.Mutex
	state         IDState
	busy          sync.WaitGroup     // the call in IDConnecting
	cancel        context.CancelFunc // ends that call
	local, remote netip.AddrPort
	peer          rdmacm.ConnParam
	ird, ord      int
	qp            Q
}

// Init prepares an identifier of the active side. Unknown addresses are zero.
func (id *ID[Q]) Init(local, remote netip.AddrPort) {
	id.ended, id.local, id.remote = make(chan struct{}), local, remote
}

// Requested makes it an identifier of the passive side.
func (id *ID[Q]) Requested(peer rdmacm.ConnParam) { id.peer, id.state = peer, IDRequested }

// SetAddrs sets the addresses.
func (id *ID[Q]) SetAddrs(local, remote netip.AddrPort) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.local, id.remote = local, remote
}

// LocalAddr implements rdmacm.ID.
func (id *ID[Q]) LocalAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.local
}

// RemoteAddr implements rdmacm.ID.
func (id *ID[Q]) RemoteAddr() netip.AddrPort {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.remote
}

// SetPeer sets the parameters that the peer sent.
func (id *ID[Q]) SetPeer(peer rdmacm.ConnParam) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.peer = peer
}

// Peer implements rdmacm.ID.
func (id *ID[Q]) Peer() rdmacm.ConnParam {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.peer
}

// SetNegotiated sets the negotiated depths.
func (id *ID[Q]) SetNegotiated(ird, ord int) {
	id.mu.Lock()
	defer id.mu.Unlock()
	id.ird, id.ord = ird, ord
}

// Negotiated implements rdmacm.ID.
func (id *ID[Q]) Negotiated() (ird, ord int) {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.ird, id.ord
}

// Disconnected implements rdmacm.ID.
func (id *ID[Q]) Disconnected() <-chan struct{} { return id.ended }

// Ended records, once, that a connection that was up has ended.
func (id *ID[Q]) Ended() { close(id.ended) }

// QP returns the queue pair, or the zero value if there is none.
func (id *ID[Q]) QP() Q {
	id.mu.Lock()
	defer id.mu.Unlock()
	return id.qp
}

// AddQP creates the identifier's queue pair with create.
func (id *ID[Q]) AddQP(create func() (Q, error)) (verbs.QP, error) {
	var none Q
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.state == IDClosed:
		return nil, verbs.ErrClosed
	case id.qp != none:
		return nil, Invalid("the identifier has a queue pair")
	case id.state == IDFailed:
		return nil, verbs.ErrQPState
	}
	qp, err := create()
	if err != nil {
		return nil, err
	}
	id.qp = qp
	return qp, nil
}

// Disconnect implements rdmacm.ID.
func (id *ID[Q]) Disconnect() error {
	id.mu.Lock()
	state, qp := id.state, id.qp
	id.mu.Unlock()
	if state != IDConnected {
		return verbs.ErrQPState
	}
	return qp.Disconnect()
}

// Call runs f, which changes the state of the identifier from one state to another: to
// IDConnected, which needs a queue pair, or to IDFailed. Only one such call can run. Its
// context ends with the identifier.
func (id *ID[Q]) Call(ctx context.Context, from, to IDState, f func(context.Context) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	call, err := id.begin(ctx, from, to)
	if err != nil {
		return err
	}
	err = f(call)
	id.done(to, err)
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.Canceled):
		return verbs.ErrClosed
	}
	return err
}

func (id *ID[Q]) begin(ctx context.Context, from, to IDState) (context.Context, error) {
	var none Q
	id.mu.Lock()
	defer id.mu.Unlock()
	switch {
	case id.state == IDClosed:
		return nil, verbs.ErrClosed
	case id.state != from:
		return nil, verbs.ErrQPState
	case to == IDFailed:
	case id.qp == none:
		return nil, Invalid("no queue pair")
	default:
		if err := id.qp.Err(); err != nil {
			return nil, err // it has failed already, for example with its device
		}
	}
	id.state = IDConnecting
	id.busy.Add(1)
	ctx, id.cancel = context.WithCancel(ctx) //nolint:gosec // done calls it
	return ctx, nil
}

// done ends the call that begin started. If it failed, the queue pair ends as well.
func (id *ID[Q]) done(to IDState, err error) {
	if err != nil {
		to = IDFailed
	}
	var none Q
	id.mu.Lock()
	id.cancel()
	id.cancel = nil // it holds the contexts of the call
	if id.state != IDClosed {
		id.state = to
	}
	qp := id.qp
	id.mu.Unlock()
	if to == IDFailed && qp != none {
		qp.End(ErrNoConnection)
	}
	id.busy.Done()
}

// Shut prevents further calls, ends the one in progress and waits for it. It returns the
// state before, which is IDClosed if it was closed already.
func (id *ID[Q]) Shut() IDState {
	id.mu.Lock()
	was := id.state
	id.state = IDClosed
	if id.cancel != nil {
		id.cancel()
	}
	id.mu.Unlock()
	if was != IDClosed {
		id.busy.Wait()
	}
	return was
}

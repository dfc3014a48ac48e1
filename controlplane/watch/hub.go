// Package watch passes the data plane's events to any number of watchers.
//
// The data plane serves one subscriber, the hub, and never waits for it. A watcher has a
// bounded queue of its own. When the queue is full, the watcher is dropped. Nothing waits for a
// watcher.
package watch

import (
	"context"
	"errors"
	"log/slog"

	"github.com/rdmad/rdmad/dataplane"
)

// Bounds of a hub. An update of the settings makes one event for each
// connection in one burst, which must fit twice.
const (
	DefaultQueue = 8192 // events waiting for one watcher; 8 bytes each, the event itself is shared
	inbound      = 4096 // events waiting for the hub
)

var (
	// ErrSlow ends a watcher whose queue is full.
	ErrSlow = errors.New("watcher fell behind")
	// ErrShutdown ends watchers when the hub ends.
	ErrShutdown = errors.New("shutting down")
)

// Source is the data plane's source of events.
type Source interface {
	Subscribe(buffer int) *dataplane.Subscription
}

// Keeper keeps data for each connection until the connection ends.
type Keeper interface {
	// Ended reports the end of a connection.
	Ended(id string)
	// Reconcile reports that ends of connections may have been missed.
	Reconcile()
}

// Hub passes events to watchers. It is subscribed from the start, so that no watcher misses an
// event. Run does the work. Close ends a hub that was not run. Watchers may be added and
// removed from any goroutine at any time. While there are none, the data plane omits the events
// that only they use.
type Hub struct {
	*Queues[*dataplane.Event]
	source Source
	keeper Keeper
	log    *slog.Logger
	sub    *dataplane.Subscription // replaced by Run alone, with mu held
}

// NewHub returns a hub whose watchers have a queue of so many events each.
func NewHub(source Source, keeper Keeper, log *slog.Logger, queue int) *Hub {
	h := &Hub{Queues: NewQueues[*dataplane.Event](queue), source: source, keeper: keeper, log: log, sub: source.Subscribe(inbound)}
	h.wanted = func(any bool) { h.sub.Changes(any) }
	h.sub.Changes(false) // ends are what the keeper needs
	return h
}

// Run passes events on until ctx or the data plane ends. Then all watchers have ended.
func (h *Hub) Run(ctx context.Context) {
	defer h.Close()
	for {
		h.keeper.Reconcile()
		err := h.follow(ctx)
		if !errors.Is(err, dataplane.ErrSlow) {
			return
		}
		// The missed events are lost: make watchers begin again, after the new
		// subscription.
		h.log.Warn("control plane fell behind the data plane's events; watchers are dropped")
		h.sub.Close()
		h.resubscribe()
		h.dropAll(ErrSlow)
	}
}

func (h *Hub) resubscribe() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.sub = h.source.Subscribe(inbound)
	h.sub.Changes(len(h.open) > 0)
}

// follow spreads the events of one subscription and says why it ended; nil
// when ctx did.
func (h *Hub) follow(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-h.sub.Events():
			if !ok {
				return h.sub.Err()
			}
			if e.Type == dataplane.ConnDown {
				h.keeper.Ended(e.Conn.ID)
			}
			h.Spread(&e)
		}
	}
}

// Close ends all watchers and the subscription. It is not for a hub that Run runs.
func (h *Hub) Close() {
	h.sub.Close()
	h.End()
}

// Watcher is one queue of events.
type Watcher = Queue[*dataplane.Event]

package transport

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/lease"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// Role is what a host's connections do. It decides which access rights the memory needs.
type Role uint8

const (
	// RoleResponder exposes no memory of the pool, so its memory has local rights only.
	RoleResponder Role = iota
	// RoleRequester exposes parts of its memory to peers, through memory windows.
	RoleRequester
)

// DefaultMemoryLimit is the default limit of a host's pooled memory, in bytes.
const DefaultMemoryLimit = 1 << 30

// HostConfig configures a Host.
type HostConfig struct {
	Device verbs.Device
	Role   Role
	// MemoryLimit limits the pooled registered memory, in bytes. 0 means
	// DefaultMemoryLimit.
	MemoryLimit int64
	// Reserve is what a requester's calls use when the process has no other memory. nil means none. A responder has one
	// of its own.
	Reserve *regmem.Reserve
	Logger  *slog.Logger // nil means slog.Default
	// DoneTimeout is how long a peer may take to acknowledge a reply that it reads. It is
	// rounded up to ticks of 5 s. 0 means DefaultDoneTimeout.
	DoneTimeout time.Duration
}

// Host holds what the connections of one listener or dialer share.
type Host struct {
	dev  verbs.Device
	attr verbs.DeviceAttr
	pd   verbs.PD
	pool *regmem.Pool
	log  *slog.Logger
	// zeros is the memory that padding is sent from.
	zeros   *regmem.Buffer
	workers workers
	watch   lease.Watch // of connections whose leaders are away
	// scarce holds a token when the pool had no memory for a request.
	scarce chan struct{}
	// gathers holds a token while a call of a requester waits for the rest of its memory.
	gathers chan struct{}
	reserve *regmem.Reserve // to close with the host, or nil
	shares  hostShares
	// exposable limits the memory of replies that peers read.
	exposable   budget
	doneTimeout time.Duration

	mu     sync.Mutex
	links  map[*link]struct{}
	closed bool
	freed  chan struct{} // closed when Close is complete
	stop   context.CancelFunc
	ticker sync.WaitGroup
}

// NewHost makes a host. It allocates one protection domain and starts one goroutine.
func NewHost(cfg HostConfig) (*Host, error) {
	pd, err := cfg.Device.AllocPD()
	if err != nil {
		return nil, fmt.Errorf("transport: allocate PD: %w", err)
	}
	// Peers access the pool's memory only through windows or registrations of parts of it
	// (responder_exposure.go, requester_window.go, sink.go).
	access := verbs.AccessLocalWrite
	if cfg.Role == RoleRequester {
		access |= verbs.AccessMWBind
	}
	cfg.MemoryLimit = cmp.Or(cfg.MemoryLimit, DefaultMemoryLimit)
	cfg.Logger = cmp.Or(cfg.Logger, slog.Default())
	cfg.DoneTimeout = cmp.Or(cfg.DoneTimeout, DefaultDoneTimeout)
	h := &Host{
		dev: cfg.Device, attr: cfg.Device.Attr(), pd: pd,
		pool: regmem.New(pd, access, cfg.MemoryLimit),
		log:  cfg.Logger, doneTimeout: cfg.DoneTimeout,
		links: make(map[*link]struct{}),
		freed: make(chan struct{}), scarce: make(chan struct{}, 1), gathers: make(chan struct{}, 1),
	}
	scarce := func() {
		select {
		case h.scarce <- struct{}{}:
		default:
		}
	}
	h.limitExposures(cfg.MemoryLimit)
	h.pool.OnScarce(scarce)
	h.shares.divide(h.pool, scarce)
	if h.zeros, err = h.pool.Single(transmission.MaxZeros); err != nil {
		h.pool.Close()
		return nil, fmt.Errorf("transport: register memory: %w", err)
	}
	if cfg.Role == RoleResponder {
		h.reserve = regmem.NewReserve()
		cfg.Reserve = h.reserve
	}
	h.pool.SetReserve(cfg.Reserve)
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.workers.start()
	h.ticker.Go(func() { h.ticks(ctx) })
	return h, nil
}

// Memory returns the current statistics of the host's memory.
func (h *Host) Memory() regmem.Stats { return h.pool.Stats() }

// Shares returns how much memory the connections use for replies, and for data that
// is read.
func (h *Host) Shares() (replies, fetches fair.Usage) {
	return h.shares.replies.Usage(), h.shares.fetches.Usage()
}

// SetMemoryLimit changes the limit of the host's pooled memory, in bytes. It returns the
// limit in force, which is higher while more memory is in use.
func (h *Host) SetMemoryLimit(limit int64) int64 {
	limit = h.pool.SetLimit(limit)
	h.limitExposures(limit)
	return limit
}

// flushPause is the minimum time between two rounds of flushes.
const flushPause = 100 * time.Millisecond

// noMemory returns ErrNoMemory with the holders of the memory, with the device's error if the
// device refused to register memory, or with ErrLimit if the process may have no more.
func (h *Host) noMemory() error {
	if err := h.pool.Failure(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	h.mu.Lock()
	n := len(h.links)
	h.mu.Unlock()
	m := h.pool.Stats()
	if m.Starved {
		return fmt.Errorf("%w: %w", ErrNoMemory, offheap.ErrLimit)
	}
	return fmt.Errorf("%w for the first receives: %d connections hold %d of %d bytes", ErrNoMemory, n, m.Taken, m.Limit)
}

// ticks checks for connections without progress and frees unused memory. When a request
// finds no memory, it flushes replies whose completion was not requested, and ends
// connections of peers that give memory back too slowly.
func (h *Host) ticks(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	pause := time.NewTimer(flushPause)
	defer pause.Stop()
	look := time.NewTimer(0) // at peers that give memory back too slowly; stopped while no request waits
	look.Stop()
	looking := false
	var links []*link
	scarce := h.scarce
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			links = h.each(links, (*link).tick)
			h.pool.Trim()
		case <-scarce:
			links = h.each(links, (*link).flush)
			scarce = nil
			pause.Reset(flushPause)
			if !looking {
				looking = true
				links = h.reclaim(links, false)
				look.Reset(reclaimEvery)
			}
		case <-look.C:
			links = h.reclaim(links, true)
			if looking = h.shares.waiting() > 0; looking {
				look.Reset(reclaimEvery)
			}
		case <-pause.C:
			scarce = h.scarce
		}
	}
}

// eachStretch is how long each works at a time. A connection that begins to rest wakes two
// goroutines, which take four times as long as its tick.
const eachStretch = 200 * time.Microsecond

// each calls f for all connections. It returns its storage for the next call.
func (h *Host) each(storage []*link, f func(*link)) []*link {
	links := storage[:0]
	h.mu.Lock()
	for l := range h.links {
		links = append(links, l)
	}
	h.mu.Unlock()
	fair.Walk(links, eachStretch, f)
	clear(links)
	return links
}

func (h *Host) add(l *link) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrClosed
	}
	h.links[l] = struct{}{}
	return nil
}

func (h *Host) remove(l *link) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.links, l)
}

// Close ends all connections, waits for them, and frees everything. Buffers that a user of
// a Requester still holds are freed when they are released. Close then returns
// verbs.ErrBusy.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		<-h.freed
		return nil
	}
	h.closed = true
	defer close(h.freed)
	links := slices.Collect(maps.Keys(h.links))
	h.mu.Unlock()
	for _, l := range links {
		l.fail(nil)
	}
	for _, l := range links {
		<-l.done
	}
	h.stop()
	h.ticker.Wait()
	h.workers.close()
	h.watch.Close()
	h.zeros.Release()
	err := h.pool.Close()
	if h.reserve != nil {
		h.reserve.Close()
	}
	if err != nil {
		return err // a user's buffers are still charged
	}
	return h.shares.free()
}

package transport

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// Role says what a host's connections do, and with it which rights its memory
// needs.
type Role uint8

const (
	// RoleResponder exposes nothing of the pool: its memory has local rights
	// only.
	RoleResponder Role = iota
	// RoleRequester exposes parts of its memory to peers, through windows.
	RoleRequester
)

// DefaultMemoryLimit bounds a host's pooled memory when nobody says
// otherwise, in bytes.
const DefaultMemoryLimit = 1 << 30

// HostConfig is what a Host is made with.
type HostConfig struct {
	Device verbs.Device
	Role   Role
	// MemoryLimit bounds the pooled registered memory, in bytes; 0 is
	// DefaultMemoryLimit.
	MemoryLimit int64
	Logger      *slog.Logger // nil is slog.Default
	// DoneTimeout is how long a peer may take to acknowledge a reply that it
	// reads, in whole ticks of 5 s; 0 is DefaultDoneTimeout.
	DoneTimeout time.Duration
}

// Host is what the connections of one listener or dialer share.
type Host struct {
	dev  verbs.Device
	attr verbs.DeviceAttr
	pd   verbs.PD
	pool *regmem.Pool
	log  *slog.Logger
	// zeros is what padding is sent from.
	zeros   *regmem.Buffer
	workers workers
	watch   watch
	// scarce holds a token when the pool had no memory for somebody.
	scarce chan struct{}
	shares hostShares
	// exposable bounds the memory of replies that peers read.
	exposable   budget
	doneTimeout time.Duration

	mu     sync.Mutex
	links  map[*link]struct{}
	closed bool
	freed  chan struct{} // closed at the end of Close
	stop   context.CancelFunc
	ticker sync.WaitGroup
}

// NewHost makes a host. It holds one protection domain and starts one
// goroutine.
func NewHost(cfg HostConfig) (*Host, error) {
	pd, err := cfg.Device.AllocPD()
	if err != nil {
		return nil, fmt.Errorf("transport: allocate PD: %w", err)
	}
	// Peers reach the pool's memory through windows, or registrations, of parts alone
	// (responder_exposure.go, requester_window.go, sink.go).
	access := verbs.AccessLocalWrite
	if cfg.Role == RoleRequester {
		access |= verbs.AccessMWBind
	}
	if cfg.MemoryLimit == 0 {
		cfg.MemoryLimit = DefaultMemoryLimit
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.DoneTimeout == 0 {
		cfg.DoneTimeout = DefaultDoneTimeout
	}
	h := &Host{
		dev: cfg.Device, attr: cfg.Device.Attr(), pd: pd,
		pool:      regmem.New(pd, access, cfg.MemoryLimit),
		log:       cfg.Logger,
		exposable: budget{limit: max(cfg.MemoryLimit/exposureShare, conn.MaxMessage)}, doneTimeout: cfg.DoneTimeout,
		links: make(map[*link]struct{}),
		freed: make(chan struct{}), scarce: make(chan struct{}, 1),
	}
	scarce := func() {
		select {
		case h.scarce <- struct{}{}:
		default:
		}
	}
	h.pool.OnScarce(scarce)
	h.shares.divide(h.pool, scarce)
	if h.zeros, err = h.pool.Single(transmission.MaxZeros); err != nil {
		h.pool.Close()
		return nil, fmt.Errorf("transport: register memory: %w", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	h.stop = stop
	h.workers.start()
	h.ticker.Go(func() { h.ticks(ctx) })
	return h, nil
}

// Memory gives the present numbers of the host's memory.
func (h *Host) Memory() regmem.Stats { return h.pool.Stats() }

// SetMemoryLimit bounds the host's pooled memory from now on, in bytes. It
// returns the bound in force, which is higher while more is in use.
func (h *Host) SetMemoryLimit(limit int64) int64 { return h.pool.SetLimit(limit) }

// flushPause is the least time between two rounds of flushes.
const flushPause = 100 * time.Millisecond

// noMemory is ErrNoMemory with the memory's holders, or with the device's reason if
// the device refused to register memory.
func (h *Host) noMemory() error {
	if err := h.pool.Failure(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoMemory, err)
	}
	h.mu.Lock()
	n := len(h.links)
	h.mu.Unlock()
	m := h.pool.Stats()
	return fmt.Errorf("%w for the first receives: %d connections hold %d of %d bytes", ErrNoMemory, n, m.Taken, m.Limit)
}

// ticks looks after connections that make no progress, after memory that nobody
// uses and, when there is none for somebody, after that of replies for whose
// completion nobody has asked, and that of peers that give it back too slowly.
func (h *Host) ticks(ctx context.Context) {
	t := time.NewTicker(tick)
	defer t.Stop()
	pause := time.NewTimer(flushPause)
	defer pause.Stop()
	look := time.NewTimer(0) // at those peers; stopped while nobody waits
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

// each calls f for all connections. It returns storage for the next time.
func (h *Host) each(storage []*link, f func(*link)) []*link {
	links := storage[:0]
	h.mu.Lock()
	for l := range h.links {
		links = append(links, l)
	}
	h.mu.Unlock()
	for i, l := range links {
		f(l)
		links[i] = nil
	}
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

// Close ends all connections, waits for them, and frees everything. Buffers
// that a user of a Requester still holds are freed when they are released;
// Close says so with verbs.ErrBusy.
func (h *Host) Close() error {
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		<-h.freed
		return nil
	}
	h.closed = true
	defer close(h.freed)
	links := make([]*link, 0, len(h.links))
	for l := range h.links {
		links = append(links, l)
	}
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
	h.watch.close()
	h.zeros.Release()
	return h.pool.Close()
}

// must gives a buffer of at least n bytes to a caller that can't wait: from the pool,
// or with a registration of its own.
func (h *Host) must(n int) (*regmem.Buffer, error) {
	if b := h.pool.TryAlloc(n, regmem.Service); b != nil {
		return b, nil
	}
	return h.pool.Single(n)
}

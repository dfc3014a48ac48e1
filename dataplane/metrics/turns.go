package metrics

import (
	"bytes"
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/verbs/peers"
)

// rests is how long the next scrape waits after one, in times of that scrape. So all
// scrapes together take at most a quarter of one processor.
const rests = 3

// turns makes scrapes one after the other, in turns between the hosts that ask for them.
type turns struct {
	mu    sync.Mutex
	taken bool // by a scrape, or the rest after it
	queue fair.Queue[*turn]
	hosts map[netip.Addr]*host
}

// host is a host with scrapes that were not answered yet.
type host struct {
	flow    fair.Flow[*turn]
	scrapes int
}

// turn is a scrape that waits.
type turn struct {
	comes chan struct{} // closed when it is this scrape's turn
	over  bool          // the client is gone
}

func newTurns() *turns { return &turns{hosts: make(map[netip.Addr]*host)} }

// handler answers requests with h when it is their turn. A client that reads its answer
// slowly does not keep the turn.
func (t *turns) handler(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, _ := netip.ParseAddrPort(r.RemoteAddr)
		if !t.wait(r.Context(), peers.Of(at.Addr())) {
			return // the client is gone
		}
		p := &page{header: w.Header(), code: http.StatusOK}
		t.serve(h, p, r)
		w.WriteHeader(p.code)
		_, _ = p.body.WriteTo(w) // the client may be gone
	})
}

// serve makes the answer to the request whose turn it is, and ends the turn.
func (t *turns) serve(h http.Handler, p *page, r *http.Request) {
	start := time.Now()
	defer func() { time.AfterFunc(rests*time.Since(start), t.next) }()
	h.ServeHTTP(p, r)
}

// page is an answer that is not sent yet. It implements http.ResponseWriter.
type page struct {
	header http.Header
	body   bytes.Buffer
	code   int
}

func (p *page) Header() http.Header         { return p.header }
func (p *page) Write(b []byte) (int, error) { return p.body.Write(b) }
func (p *page) WriteHeader(code int)        { p.code = code }

// wait waits for the turn of a host's scrape. It returns false if ctx ends first. The
// caller then has no turn.
func (t *turns) wait(ctx context.Context, addr netip.Addr) bool {
	t.mu.Lock()
	if !t.taken {
		t.taken = true
		t.mu.Unlock()
		return true
	}
	s := &turn{comes: make(chan struct{})}
	h := t.hosts[addr]
	if h == nil {
		h = new(host)
		t.hosts[addr] = h
	}
	h.scrapes++
	t.queue.Push(&h.flow, s)
	t.mu.Unlock()
	defer t.leave(addr, h)
	select {
	case <-s.comes:
		return true
	case <-ctx.Done():
	}
	t.mu.Lock()
	s.over = true
	t.mu.Unlock()
	select {
	case <-s.comes: // too late
		t.next()
	default:
	}
	return false
}

func (t *turns) leave(addr netip.Addr, h *host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h.scrapes--; h.scrapes == 0 {
		delete(t.hosts, addr)
	}
}

// next gives the turn to the next scrape that waits.
func (t *turns) next() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		s, ok := t.queue.Pop()
		switch {
		case !ok:
			t.taken = false
			return
		case !s.over:
			close(s.comes)
			return
		}
	}
}

package transport

import (
	"context"
	"fmt"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
)

// Memory for data of calls, divided between the connections of a host. Each
// connection may always have the largest call read and its reply made; what it
// holds above that it borrows (package fair). A peer that does not take its
// replies, or does not answer RDMA Reads, while others wait for what it has
// borrowed, loses its connection.

// newcomers is the number of connections to come for which shares are kept.
const newcomers = 256

// reclaimEvery is the time between two looks at who gives back too little.
const reclaimEvery = time.Second

// hostShares is the memory that is divided.
type hostShares struct {
	replies *fair.Pool // what services take for replies
	fetches *fair.Pool // what calls are read into
}

// linkShares is what a connection has of it.
type linkShares struct {
	replies, fetches *fair.Share
	pace             fair.Pace // only for the host's ticker
}

// divide makes the shares of a host's pool, and has them follow its limit.
func (s *hostShares) divide(pool *regmem.Pool, scarce func()) {
	s.replies = fair.NewPool(0, regmem.MaxBuffer)
	s.fetches = fair.NewPool(0, regmem.MaxBuffer)
	for _, p := range []*fair.Pool{s.replies, s.fetches} {
		p.OnWait(scarce)
		p.Expect(newcomers)
	}
	pool.OnDivision(func(d regmem.Division) {
		s.replies.SetLimit(d.Service)
		s.fetches.SetLimit(d.Fetch)
	})
}

// waiting says whether a connection waits for memory.
func (s *hostShares) waiting() bool {
	return s.replies.Usage().Waiting > 0 || s.fetches.Usage().Waiting > 0
}

func (s *hostShares) join() linkShares {
	return linkShares{replies: s.replies.Join(1), fetches: s.fetches.Join(1)}
}

func (s *linkShares) leave() {
	s.replies.Leave()
	s.fetches.Leave()
}

func (s *linkShares) setWeight(w uint32) {
	s.replies.SetWeight(int(w))
	s.fetches.SetWeight(int(w))
}

// setSharing takes what settings say of the connection's part against others, of
// memory and of work.
func (l *link) setSharing(s *conn.Settings) {
	l.shares.setWeight(s.CreditsWeight)
	l.host.workers.setWeight(&l.flow, s.CreditsWeight)
	l.rq.divided = s.CreditsPolicy == conn.CreditsAdaptive
}

// over is what the connection has borrowed of what others wait for, in bytes.
func (s *linkShares) over() (n int64) {
	for _, x := range []*fair.Share{s.replies, s.fetches} {
		if x.OthersWait() {
			n += x.Over()
		}
	}
	return n
}

// tryTake gives a buffer of at least n bytes on account of a share, or nil when
// there is none without waiting.
func (h *Host) tryTake(s *fair.Share, n int, use regmem.Use) *regmem.Buffer {
	size := int64(regmem.Footprint(n))
	if !s.TryAcquire(size) {
		return nil
	}
	b := h.pool.TryAlloc(n, use)
	if b == nil {
		s.Release(size)
		return nil
	}
	b.Charge(s, size)
	return b
}

// take is tryTake that waits until there is one or ctx ends.
func (h *Host) take(ctx context.Context, s *fair.Share, n int, use regmem.Use) (*regmem.Buffer, error) {
	if n > regmem.MaxBuffer {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", regmem.ErrTooLarge, n, regmem.MaxBuffer)
	}
	size := int64(regmem.Footprint(n))
	if err := s.Acquire(ctx, size); err != nil {
		return nil, err
	}
	b, err := h.pool.Alloc(ctx, n, use)
	if err != nil {
		s.Release(size)
		return nil, err
	}
	b.Charge(s, size)
	return b, nil
}

// serviceMemory gives services buffers that replies are sent from.
type serviceMemory struct{ *link }

// Alloc implements oncrpc.Memory.
func (m serviceMemory) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	b, err := m.host.take(ctx, m.shares.replies, n, regmem.Service)
	if err != nil {
		return nil, err
	}
	return b, nil
}

// reclaim looks at what each connection has given back since the last time. Of
// those that are behind while others wait, the one that has borrowed most loses
// its connection. It is the host's ticker that calls it. Without since, nobody
// looked before, or nobody waited since.
func (h *Host) reclaim(links []*link, since bool) []*link {
	var worst *link
	most, now := int64(0), time.Now()
	links = h.each(links, func(l *link) {
		if over, behind := l.step(now, since); behind && over > most {
			worst, most = l, over
		}
	})
	if worst != nil {
		worst.fail(fmt.Errorf("%w: gives back less than %d bytes per second of the %d bytes of memory that it borrowed while others wait", ErrSlow, fair.Floor, most))
	}
	return links
}

// step notes what the connection has got done.
func (l *link) step(now time.Time, since bool) (over int64, behind bool) {
	over = l.shares.over()
	l.mu.Lock()
	defer l.mu.Unlock()
	owed := since && over > 0 && l.sq.out.len() > 0 && !l.dead // else it is not the peer's doing
	return over, l.shares.pace.Step(now, l.sq.done, owed, regmem.MaxBuffer)
}

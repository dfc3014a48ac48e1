package transport

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs/peers"
)

// Memory for data of calls, divided between the connections of a host. Each
// connection may always have the largest call read and its reply made; what it
// holds above that it borrows (package fair). With more connections than there are
// shares for, those of one peer leave others a part. A peer that does not take its
// replies, or does not answer RDMA Reads, while others wait for what it has, loses
// its connection.

// newcomers is the number of future connections for which shares are kept.
const newcomers = 256

// reclaimEvery is the time between two calls of reclaim.
const reclaimEvery = time.Second

// hostShares is the memory that is divided.
type hostShares struct {
	replies *fair.Pool // what services take for replies
	fetches *fair.Pool // what calls are read into
}

// linkShares is a connection's part of it.
type linkShares struct {
	replies, fetches *fair.Share
	pace             fair.Pace // only for the host's ticker
}

// divide makes the fair pools of a host. They follow the limit of its registered
// memory.
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

// waiting is how many requests for memory wait.
func (s *hostShares) waiting() int {
	return s.replies.Usage().Waiting + s.fetches.Usage().Waiting
}

func (s *hostShares) join(peer netip.Addr) linkShares {
	key := peers.Of(peer)
	return linkShares{replies: s.replies.Join(key, 1), fetches: s.fetches.Join(key, 1)}
}

func (s *linkShares) leave() {
	s.replies.Leave()
	s.fetches.Leave()
}

func (s *linkShares) setWeight(w uint32) {
	s.replies.SetWeight(int(w))
	s.fetches.SetWeight(int(w))
}

// setSharing applies the settings that decide the connection's part of memory and
// of work.
func (l *link) setSharing(s *conn.Settings) {
	l.shares.setWeight(s.CreditsWeight)
	l.host.workers.setWeight(&l.flow, s.CreditsWeight)
	l.rq.divided = s.CreditsPolicy == conn.CreditsAdaptive
}

// exhausted says of which memory others wait for their share.
type exhausted struct{ replies, fetches bool }

func (s *hostShares) exhausted() exhausted {
	return exhausted{s.replies.Usage().Exhausted, s.fetches.Usage().Exhausted}
}

// owed is what the connection has of what others wait for, in bytes, and the rate
// at which it is expected to give that back: what it has borrowed or, while others
// wait for their share, all of it.
func (s *linkShares) owed(e exhausted) (n, floor int64) {
	for _, x := range []struct {
		*fair.Share
		exhausted bool
	}{{s.replies, e.replies}, {s.fetches, e.fetches}} {
		if !x.OthersWait() {
			continue
		}
		if over := x.Over(); over > 0 {
			n, floor = n+over, fair.Floor
		}
		if x.exhausted {
			n, floor = n+x.Held()-x.Over(), max(floor, fair.ShareFloor)
		}
	}
	if n == 0 {
		return 0, 0
	}
	return n, floor
}

// tryTake returns a buffer of at least n bytes, charged to a share, or nil if it
// would have to wait.
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

// take is tryTake, but waits until there is a buffer or ctx ends.
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

// serviceMemory gives services buffers for their replies.
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
// those that are behind while others wait, those that have most lose their
// connections, one for each request that waits. It is the host's ticker that calls
// it. Without since, nobody looked before, or nobody waited since.
func (h *Host) reclaim(links []*link, since bool) []*link {
	type debtor struct {
		*link
		owed, floor int64
	}
	var behind []debtor
	now, e := time.Now(), h.shares.exhausted()
	links = h.each(links, func(l *link) {
		d := debtor{link: l}
		if d.owed, d.floor = l.shares.owed(e); l.step(now, d.floor, since) {
			behind = append(behind, d)
		}
	})
	slices.SortFunc(behind, func(a, b debtor) int { return cmp.Compare(b.owed, a.owed) })
	for _, d := range behind[:min(len(behind), h.shares.waiting())] {
		d.fail(fmt.Errorf("%w: gives back less than %d bytes per second of the %d bytes of memory for which others wait", ErrSlow, d.floor, d.owed))
	}
	return links
}

// step notes the connection's progress. floor is the rate that is expected.
func (l *link) step(now time.Time, floor int64, since bool) (behind bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !since || l.sq.out.len() == 0 || l.dead {
		floor = 0 // it is not the peer's doing
	}
	return l.shares.pace.Step(now, l.sq.done, floor, regmem.MaxBuffer)
}

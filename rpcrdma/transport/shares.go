package transport

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs/peers"
)

// Memory for the data of calls, divided between the connections of a host. Each connection
// always has enough to read the largest call and make its reply. It borrows what it holds
// beyond that (package fair). If there are more connections than shares, the connections of
// one peer leave a part to others. A peer is disconnected if it does not take its replies,
// or does not answer RDMA Reads, while others wait for the memory that it holds.

// newcomers is the number of future connections for which shares are kept.
const newcomers = 256

// reclaimEvery is the time between two calls of reclaim.
const reclaimEvery = time.Second

// hostShares is the memory that is divided.
type hostShares struct {
	replies *fair.Pool // for replies of services
	fetches *fair.Pool // for calls that are read
}

// linkShares is a connection's part of hostShares.
type linkShares struct {
	replies, fetches *fair.Share
	pace             fair.Pace // only for the host's ticker
}

// divide makes the fair pools of a host. They follow the limit of its registered memory.
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

// waiting returns how many requests wait for memory.
func (s *hostShares) waiting() int {
	return s.replies.Usage().Waiting + s.fetches.Usage().Waiting
}

// free returns an error if anything is charged although there are no connections.
func (s *hostShares) free() error {
	for what, p := range map[string]*fair.Pool{"replies": s.replies, "data that is read": s.fetches} {
		if u := p.Usage(); u.Held != 0 || u.Holders != 0 || u.Waiting != 0 {
			return fmt.Errorf("transport: memory for %s is charged to connections that have ended: %+v", what, u)
		}
	}
	return nil
}

func (s *hostShares) join(peer netip.Addr) linkShares {
	key := peers.Of(peer)
	return linkShares{replies: s.replies.Join(key, 1), fetches: s.fetches.Join(key, 1)}
}

// setSharing applies the settings that decide the connection's part of memory and of work.
func (l *link) setSharing(s *settings.Settings) {
	l.shares.replies.SetWeight(int(s.CreditsWeight))
	l.shares.fetches.SetWeight(int(s.CreditsWeight))
	l.host.workers.setWeight(&l.flow, s.CreditsWeight)
	l.rq.divided = s.CreditsPolicy == settings.CreditsAdaptive
}

// stopSharing gives up the connection's part.
func (l *link) stopSharing() {
	l.shares.replies.Leave()
	l.shares.fetches.Leave()
	l.host.workers.setWeight(&l.flow, 0)
}

// owed returns how much of the memory that others wait for the connection holds, in bytes,
// and the rate at which it must give that back. It owes what it has borrowed or, while
// others wait for their share, everything that it holds.
func (s *linkShares) owed(replies, fetches fair.Usage) (n, floor int64) {
	for _, x := range []struct {
		*fair.Share
		exhausted bool
	}{{s.replies, replies.Exhausted}, {s.fetches, fetches.Exhausted}} {
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

// tryTake returns a buffer of at least n bytes, charged to a share, or nil if it would have
// to wait.
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

// reclaim measures what each connection has given back since the last call. While requests
// wait, it ends one connection for each of them: of the connections that give back too
// slowly, those that hold most. The host's ticker calls it. since is false if it was not
// called before, or no request waited since.
func (h *Host) reclaim(links []*link, since bool) []*link {
	type debtor struct {
		*link
		owed, floor int64
	}
	var behind []debtor
	now := time.Now()
	replies, fetches := h.Shares()
	links = h.each(links, func(l *link) {
		d := debtor{link: l}
		if d.owed, d.floor = l.shares.owed(replies, fetches); l.step(now, d.floor, since) {
			behind = append(behind, d)
		}
	})
	slices.SortFunc(behind, func(a, b debtor) int { return cmp.Compare(b.owed, a.owed) })
	for _, d := range behind[:min(len(behind), h.shares.waiting())] {
		d.fail(fmt.Errorf("%w: gives back less than %d bytes per second of the %d bytes of memory for which others wait", ErrSlow, d.floor, d.owed))
	}
	return links
}

// step records the connection's progress. floor is the required rate.
func (l *link) step(now time.Time, floor int64, since bool) (behind bool) {
	l.mu.look()
	defer l.mu.Unlock()
	if !since || !l.sq.waits() || l.dead {
		floor = 0 // the peer is not the cause
	}
	return l.shares.pace.Step(now, l.sq.done, floor, regmem.MaxBuffer)
}

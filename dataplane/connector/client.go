package connector

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc/programs"
	"github.com/rdmad/rdmad/verbs/offheap"
)

// leaseTime is how long a silent NFSv4 client may still have a lease. Until then the server
// keeps state for it and may call it back. Servers usually give leases of 90 s, and Linux
// clients renew them each minute.
const leaseTime = 2 * time.Minute

// client is a TCP client that has a place. It gets its session later. It implements
// connlimit.Holder.
type client struct {
	nc   net.Conn
	addr netip.AddrPort
	seat *dataplane.Seat

	mu      sync.Mutex
	session *session
	evicted error
}

// up gives the client its session. It fails if the client has lost its place meanwhile.
func (cl *client) up(s *session) error {
	cl.mu.Lock()
	cl.session = s
	evicted := cl.evicted
	cl.mu.Unlock()
	if evicted != nil {
		s.end(evicted)
		s.free()
	}
	return evicted
}

// Busy implements connlimit.Holder. A client without a session counts as busy, because the
// connection to the target is being made.
func (cl *client) Busy() bool {
	cl.mu.Lock()
	s := cl.session
	cl.mu.Unlock()
	return s == nil || s.busy()
}

// Evict implements connlimit.Holder.
func (cl *client) Evict(why connlimit.Eviction) {
	err := errors.New(why.Text())
	cl.mu.Lock()
	s := cl.session
	cl.evicted = err
	cl.mu.Unlock()
	if s == nil {
		cl.nc.Close()
	} else {
		s.end(err)
	}
}

// renew records an NFSv4 call, because the client may have a lease.
func (s *session) renew(c *oncrpc.Call, now time.Time) {
	if c.Program == nfsProgram && c.Version == 4 {
		s.lease.Store(now.UnixNano())
	}
}

const nfsProgram = programs.NFS

// busy reports whether the client needs its connection. It does if calls are in flight,
// including those of the target, or one arrives, and the client makes progress. The first call
// counts when it has arrived. The client also needs the connection if it may have a lease with
// delegations, for which the target calls it back.
func (s *session) busy() bool {
	if s.Behind() >= fair.Grace {
		return false
	}
	calls, _ := s.gate.Used()
	return calls > 0 || s.called.Load() && s.intake.Begun() || s.callbacksOut() || time.Since(time.Unix(0, s.lease.Load())) < leaseTime
}

func (s *session) callbacksOut() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.callbacks) > 0
}

var _ rpctcp.Borrower = (*session)(nil)

// Behind implements rpctcp.Borrower.
func (s *session) Behind() time.Duration { return max(s.intake.Behind(), s.out.Behind()) }

// Wanted implements rpctcp.Borrower. Calls have memory of the process, for which others wait as well.
func (s *session) Wanted() int64 {
	others := offheap.Waiting()
	if s.rdma.Memory().Starved { // one of those who wait
		others--
	}
	if others <= 0 && !s.share.OthersWait() {
		return 0
	}
	return s.share.Held()
}

// Cut implements rpctcp.Borrower.
func (s *session) Cut(reason error) { s.end(reason) }

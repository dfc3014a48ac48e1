package softiwarp

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// A passive side may start to look for FPDUs only a moment after it has accepted, and
// miss what arrived in between until more arrives: Linux's siw_accept sends the MPA
// reply before siw_qp_socket_assoc. With one credit nothing more ever arrives. So while
// the peer of an active side is silent, that side sends an empty RDMA Write after its
// first message. The Write places nothing; RFC 6581 uses the same as a
// ready-to-receive indication.
const (
	firstNudge = 50 * time.Millisecond // after the connection was made
	lastNudge  = time.Second           // intervals double up to here
)

// awaitPeerLocked starts nudging a peer that stays silent.
func (q *queuePair) awaitPeerLocked() {
	interval := firstNudge
	q.nudgeTimer = time.AfterFunc(interval, func() {
		q.Lock()
		defer q.Unlock()
		if q.StateLocked() != verbs.QPRTS || q.answered.Load() || interval >= lastNudge {
			return
		}
		q.nudgeLocked()
		interval *= 2
		q.nudgeTimer.Reset(interval)
	})
}

// nudgeLocked sends an empty RDMA Write if something was sent before and
// nothing is being sent now; a full socket needs none.
func (q *queuePair) nudgeLocked() {
	if q.sq.tx == 0 || q.txBusy || q.txErr != nil || q.tx.inSend || q.tx.inResponse || len(q.tx.pending()) > 0 {
		return
	}
	h := ddp.Header{Tagged: true, Last: true, ULP: rdmap.Control(rdmap.Write)}
	q.tx.sock.sendBytes(q.raw, mpa.AppendFPDU(nil, h.Append(nil), q.crc))
	if q.tx.sock.err != nil {
		q.sendFailedLocked(q.tx.sock.err)
		return
	}
	q.kickLocked(0) // what the socket did not take
}

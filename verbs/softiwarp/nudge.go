package softiwarp

import (
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// An active side sends an empty RDMA Write after its first message while the peer is
// silent. The reason is a passive side that starts to watch its socket only after it has
// accepted: Linux's siw_accept sends the MPA reply before siw_qp_socket_assoc. Such a peer
// notices input that arrived in between only when more arrives, and with one credit nothing
// more arrives. The Write places nothing. RFC 6581 uses the same message as a
// ready-to-receive indication.
const (
	firstNudge = 50 * time.Millisecond // after the connection is established
	lastNudge  = time.Second           // the intervals double up to this
)

// awaitPeerLocked sends nudges while the peer stays silent.
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

// nudgeLocked sends an empty RDMA Write if something was sent before and nothing is
// being sent now. A full socket needs no nudge.
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
	q.kickLocked(0) // sends the bytes that the socket did not take
}

package softiwarp

import (
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// awaitPeerLocked sends nudges while the peer stays silent (see driver.MostNudges).
func (q *queuePair) awaitPeerLocked() {
	q.nudgeTimer = q.NudgesLocked(func() bool {
		if q.answered.Load() {
			return false
		}
		q.nudgeLocked()
		return true
	})
}

// nudgeLocked sends an empty RDMA Write if something was sent before and nothing is
// being sent now. A full socket needs no nudge.
func (q *queuePair) nudgeLocked() {
	if q.sq.tx == 0 || q.txBusy || q.txErr != nil || q.tx.inSend || q.tx.inResponse || len(q.tx.sock.pending()) > 0 {
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

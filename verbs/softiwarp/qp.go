package softiwarp

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/lease"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// queuePair is a queue pair and, once established, its connection.
type queuePair struct {
	driver.QP
	dev            *device
	pd             *driver.SoftPD
	id             *connID
	sendCQ, recvCQ *completionQueue
	reading        lease.Lease // the right to read the connection, and to use rx

	closed   atomic.Bool
	dying    atomic.Bool   // the queue pair has failed; the reader may not have noticed yet
	answered atomic.Bool   // the peer has sent an FPDU
	input    atomic.Bool   // there was input since the last request for a notice
	sinkBase uint32        // the sink STag of a Read is sinkBase plus its MSN
	done     chan struct{} // closed when finished is true

	rq recvQueue

	// The lock guards the following fields, up to the connection.

	sq       sendQueue
	inbound  readQueue
	txBusy   bool // a goroutine owns transmission
	txErr    error
	hold     bool // passive side before the peer's first FPDU: must not send
	rxActive bool // receiving has begun and not ended
	// finished means that the end is complete: all requests have been flushed, and
	// nothing accesses their memory any more.
	finished bool
	crc      bool      // of the connection
	readTill time.Time // deadline of reading; zero if none
	// The request to which a failure is attributed.
	failed       bool
	failedPos    uint32
	failedStatus verbs.WCStatus
	goodbye      *rdmap.Term // Terminate to send at the end
	drainTimer   *time.Timer
	nudgeTimer   *time.Timer // active side, until the peer has sent something

	// The connection; these fields are constant once it is established.
	conn     *net.TCPConn
	raw      syscall.RawConn
	ird, ord int
	maxULPDU int

	// readsSent counts the Read Requests that are in TCP or about to be. readsDone
	// counts those that were answered completely.
	readsSent, readsDone atomic.Uint32

	tx transmitter
	rx receiver
}

var _ verbs.QP = (*queuePair)(nil)

func newQP(id *connID, pd *driver.SoftPD, attr verbs.QPAttr) (*queuePair, error) {
	d := id.p.dev
	q := &queuePair{dev: d, pd: pd, id: id, done: make(chan struct{}), sinkBase: d.Tags.Draw()}
	if err := pd.CreateQP(&q.QP, q, attr); err != nil {
		return nil, err
	}
	q.sendCQ, q.recvCQ = attr.SendCQ.(*completionQueue), attr.RecvCQ.(*completionQueue) // the device makes no other type
	q.sendCQ.used(q)
	q.recvCQ.used(q)
	q.sq.init(attr.MaxSendWR, attr.MaxSendSGE)
	q.rq.init(attr.MaxRecvWR, attr.MaxRecvSGE)
	q.tx.init(q)
	q.rx.init(q)
	return q, nil
}

// Fail ends the connection with a Terminate that reports a local error (RFC 5040 §5.4: a
// stream that ends abnormally ends with a Terminate).
func (q *queuePair) Fail() { q.fail(driver.ErrFailed, &rdmap.Term{Fault: rdmap.LocalCatastrophic}) }

// Overflow implements driver.User.
func (q *queuePair) Overflow() {
	q.fail(driver.ErrOverflow, &rdmap.Term{Fault: rdmap.LocalCatastrophic})
}

// End implements driver.QueuePair.
func (q *queuePair) End(cause error) { q.fail(cause, nil) }

// Close implements verbs.QP. An established connection ends in order, but requests that
// were not sent yet are lost.
func (q *queuePair) Close() error {
	if q.refusePosts() {
		<-q.done
		return nil
	}
	q.fail(verbs.ErrDisconnected, nil)
	<-q.done
	q.UnbindWindows()
	q.recvCQ.driver.CompareAndSwap(q, nil)
	q.Free()
	return nil
}

// refusePosts marks the queue pair as closed, and reports whether it was. A PostRecv in progress
// ends first: its completions must not come after those that Free drops. One of PostSend holds
// the lock that fail needs.
func (q *queuePair) refusePosts() (were bool) {
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	return q.closed.Swap(true)
}

// rest frees what only a queue pair in use needs.
func (q *queuePair) rest() {
	q.Lock()
	defer q.Unlock()
	if !q.txBusy {
		q.sq.shrink()
	}
}

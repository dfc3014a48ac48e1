package softiwarp

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// queuePair is a queue pair and, once established, its connection.
type queuePair struct {
	driver.QP
	dev            *device
	pd             *protectionDomain
	id             *connID
	sendCQ, recvCQ *driver.CQ

	closed   atomic.Bool
	answered atomic.Bool   // the peer has sent an FPDU
	done     chan struct{} // closed when finished
	winMu    sync.Mutex
	windows  *memWindow // bound on this queue pair
	sinkBase uint32     // sink STags of our Reads start above it

	rq recvQueue

	// The lock guards what follows, up to the connection.

	// finished: the end is complete. All requests have been flushed, and nothing
	// touches their memory any more.
	finished bool
	sq       sendQueue
	inbound  readQueue
	txBusy   bool // a goroutine owns transmission
	txErr    error
	hold     bool // passive side before the peer's first FPDU: send nothing
	rxActive bool
	// The request that a failure is attributed to.
	failed       bool
	failedPos    uint32
	failedStatus verbs.WCStatus
	goodbye      *rdmap.Term // Terminate to send at the end
	drainTimer   *time.Timer
	nudgeTimer   *time.Timer // active side, until the peer has said something

	// The connection; constant once established.
	conn     *net.TCPConn
	raw      syscall.RawConn
	crc      bool
	ird, ord int
	maxULPDU int

	// readsSent counts Read Requests given to TCP or about to be, readsDone
	// those answered in full.
	readsSent, readsDone atomic.Uint32

	tx transmitter
	rx receiver
}

var _ verbs.QP = (*queuePair)(nil)

func newQP(id *connID, pd *protectionDomain, attr verbs.QPAttr) (*queuePair, error) {
	q := &queuePair{dev: pd.dev, pd: pd, id: id, done: make(chan struct{}), sinkBase: randomUint32()}
	if err := pd.CreateQP(&q.QP, q, attr); err != nil {
		return nil, err
	}
	q.sendCQ, q.recvCQ = attr.SendCQ.(*driver.CQ), attr.RecvCQ.(*driver.CQ) // the device has no others
	q.sq.init(attr.MaxSendWR, attr.MaxSendSGE)
	q.rq.init(attr.MaxRecvWR, attr.MaxRecvSGE)
	q.tx.init(q)
	q.rx.init(q)
	return q, nil
}

// Fail ends the connection with a Terminate that blames this side (RFC 5040
// §5.4: a stream that ends abnormally says so).
func (q *queuePair) Fail() { q.fail(driver.ErrFailed, &rdmap.Term{Fault: rdmap.LocalCatastrophic}) }

// Overflow implements driver.User.
func (q *queuePair) Overflow() {
	q.fail(driver.ErrOverflow, &rdmap.Term{Fault: rdmap.LocalCatastrophic})
}

// End implements driver.QueuePair.
func (q *queuePair) End(cause error) { q.fail(cause, nil) }

// Close implements verbs.QP. A connection that is up ends in order, but what
// has not gone out yet is lost.
func (q *queuePair) Close() error {
	if q.closed.Swap(true) {
		<-q.done
		return nil
	}
	q.fail(verbs.ErrDisconnected, nil)
	<-q.done
	q.unbindWindows()
	q.Free()
	return nil
}

func (q *queuePair) addWindow(w *memWindow) {
	q.winMu.Lock()
	defer q.winMu.Unlock()
	w.prev, w.next = nil, q.windows
	if w.next != nil {
		w.next.prev = w
	}
	q.windows = w
}

func (q *queuePair) removeWindow(w *memWindow) {
	q.winMu.Lock()
	defer q.winMu.Unlock()
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		q.windows = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	}
	w.prev, w.next = nil, nil
}

// unbindWindows ends the bindings that are left when the queue pair goes.
func (q *queuePair) unbindWindows() {
	for {
		q.winMu.Lock()
		w := q.windows
		q.winMu.Unlock()
		if w == nil {
			return
		}
		w.unbindFrom(q)
	}
}

package softiwarp

import (
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// queuePair is a queue pair and, once established, its connection.
type queuePair struct {
	num            uint32
	dev            *device
	pd             *protectionDomain
	attr           verbs.QPAttr
	sendCQ, recvCQ *completionQueue

	closed   atomic.Bool
	answered atomic.Bool   // the peer has sent an FPDU
	done     chan struct{} // closed when finished
	ended    chan struct{} // the identifier's Disconnected
	winMu    sync.Mutex
	windows  *memWindow // bound on this queue pair
	sinkBase uint32     // sink STags of our Reads start above it

	rq recvQueue

	mu    sync.Mutex
	state verbs.QPState
	cause error // set with QPErr
	// finished says that the end is complete: nobody touches the memory of
	// requests any more, and all have been flushed.
	finished bool
	sq       sendQueue
	inbound  readQueue
	txBusy   bool // somebody owns transmission
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

func (pd *protectionDomain) newQP(attr verbs.QPAttr, ended chan struct{}) (*queuePair, error) {
	sendCQ, ok1 := attr.SendCQ.(*completionQueue)
	recvCQ, ok2 := attr.RecvCQ.(*completionQueue)
	if !ok1 || !ok2 || sendCQ.dev != pd.dev || recvCQ.dev != pd.dev {
		return nil, errForeignCQ
	}
	for _, limit := range [...]struct{ v, most int }{
		{attr.MaxSendWR, maxQueueDepth}, {attr.MaxRecvWR, maxQueueDepth},
		{attr.MaxSendSGE, maxSGE}, {attr.MaxRecvSGE, maxSGE},
	} {
		if limit.v < 0 || limit.v > limit.most {
			return nil, errQPAttr
		}
	}
	if err := pd.use(); err != nil {
		return nil, err
	}
	q := &queuePair{
		num: pd.dev.nextQP.Add(1), dev: pd.dev, pd: pd, attr: attr,
		sendCQ: sendCQ, recvCQ: recvCQ,
		done: make(chan struct{}), ended: ended,
	}
	q.sinkBase = randomUint32()
	if err := q.attachCQs(); err != nil {
		pd.unuse()
		return nil, err
	}
	q.sq.init(attr.MaxSendWR, attr.MaxSendSGE)
	q.rq.init(attr.MaxRecvWR, attr.MaxRecvSGE)
	q.tx.init(q)
	q.rx.init(q)
	pd.dev.live.qps.Add(1)
	return q, nil
}

func (q *queuePair) attachCQs() error {
	if err := q.sendCQ.attach(q); err != nil {
		return err
	}
	if err := q.recvCQ.attach(q); err != nil {
		q.sendCQ.detach(q)
		return err
	}
	return nil
}

func (q *queuePair) Num() uint32 { return q.num }

func (q *queuePair) State() verbs.QPState {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.state
}

func (q *queuePair) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cause
}

// Fail ends the connection with a Terminate that blames this side (RFC 5040
// §5.4: a stream that ends abnormally says so).
func (q *queuePair) Fail() {
	q.fail(errFailed, &rdmap.Term{Fault: rdmap.LocalCatastrophic})
}

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
	q.sendCQ.detach(q)
	q.recvCQ.detach(q)
	q.pd.unuse()
	q.dev.live.qps.Add(-1)
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

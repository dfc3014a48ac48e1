//go:build rdmacore && cgo

package rdmacore

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// TestPostAfterClose: requests that are posted to a queue pair that is closed, or being closed, are refused, and
// leave nothing in its completion queue, which others may use.
func TestPostAfterClose(t *testing.T) {
	dev := &device{Device: driver.Device{Attrs: verbs.DeviceAttr{MaxCQE: 16, MaxQPWR: 4}}}
	pd, cq, q := &protectionDomain{dev: dev}, &completionQueue{dev: dev}, &queuePair{dev: dev, flushed: make(chan struct{})}
	must(t, dev.CreatePD(&pd.PD))
	must(t, dev.CreateCQBase(&cq.CQBase, 16))
	must(t, pd.CreateQP(&q.QP, q, verbs.QPAttr{SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, MaxRecvWR: 4}))
	q.sendCQ, q.recvCQ = cq, cq
	q.sq.enter(sendDead)
	close(q.flushed)
	q.Free() // as Close does
	if n, err := q.PostSend(make([]verbs.SendWR, 1)); n != 0 || !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("%d requests are taken, %v", n, err)
	}
	if n, err := q.PostRecv(make([]verbs.RecvWR, 1)); n != 0 || !errors.Is(err, verbs.ErrClosed) {
		t.Errorf("%d Receives are taken, %v", n, err)
	}
	if n := cq.Queue.Len(); n != 0 {
		t.Errorf("%d completions of a closed queue pair", n)
	}
}

package nfs

import (
	"context"
	"sync/atomic"
)

// mostInside is how many calls of one export may be in its file system at once. Each of them
// has a thread, also while the file system hangs.
const mostInside = 256

// crowd counts the calls in the file system of an export. Further ones wait, which takes no
// thread. There is no lock.
type crowd struct {
	calls atomic.Int64  // inside or waiting
	pass  chan struct{} // has a token for each waiting call that may go in
}

func newCrowd() crowd { return crowd{pass: make(chan struct{}, mostInside)} }

// enter waits until a call may go in. If ctx ends before, it returns false. Otherwise the
// call must leave.
func (c *crowd) enter(ctx context.Context) bool {
	if c.calls.Add(1) <= mostInside {
		return true
	}
	select {
	case <-c.pass:
		return true
	case <-ctx.Done():
	}
	if c.calls.Add(-1) < mostInside {
		<-c.pass // a call that left has let this one in
	}
	return false
}

// leave lets the next call in.
func (c *crowd) leave() {
	if c.calls.Add(-1) >= mostInside {
		c.pass <- struct{}{}
	}
}

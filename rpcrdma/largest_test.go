package rpcrdma_test

import (
	"errors"
	"math"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// TestLargestReply: a call may expect as much as one message has, and no larger number passes
// for a small one.
func TestLargestReply(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	c, _ := b.dial(nil)
	const most = rpcrdma.MaxMessage - oncrpc.AcceptedReplySize
	for _, tc := range []struct {
		maxReply int
		tooLong  bool
	}{{0, false}, {most, false}, {most + 1, true}, {math.MaxInt - oncrpc.AcceptedReplySize, true}, {math.MaxInt, true}} {
		call := newCall(procNull)
		call.MaxReply = tc.maxReply
		if err := c.Call(b.ctx, &call); errors.Is(err, rpcrdma.ErrCallTooLong) != tc.tooLong || !tc.tooLong && err != nil {
			t.Errorf("MaxReply %d: %v", tc.maxReply, err)
		}
	}
}

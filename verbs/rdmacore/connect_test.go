//go:build rdmacore && cgo

package rdmacore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// around returns a dial that calls first before each call.
func around[T any](dial func(func() T) T, first func()) func(func() T) T {
	return func(call func() T) T {
		first()
		return dial(call)
	}
}

// TestCauseWhileConnecting: when rdma_connect is not called any more, the error says why.
func TestCauseWhileConnecting(t *testing.T) {
	own := dial
	defer func() { dial = own }()
	for range 100 { // the caller may learn first that the call is over, or why
		for _, want := range []error{errRemoved, context.Canceled} {
			ctx, cancel := context.WithCancel(t.Context())
			q, id := &queuePair{dying: make(chan struct{})}, &connID{dev: &device{}, p: &Provider{}}
			_, err := id.AddQP(func() (*queuePair, error) { return q, nil })
			must(t, err)
			c, err := id.param(&rdmacm.ConnParam{}, requestData)
			must(t, err)
			dial = around(own, func() {
				if errors.Is(want, errRemoved) {
					q.Lock()
					q.FailLocked(errRemoved)
					q.Unlock()
					close(q.dying)
				} else {
					cancel()
				}
			})
			if err := id.connect(ctx, &rdmacm.ConnParam{}, c); !errors.Is(err, want) {
				t.Fatalf("%v, want %v", err, want)
			}
			<-q.calling
			cancel()
		}
	}
}

// TestDialBesideSilentHosts: a host that does not answer keeps no calls to others waiting.
func TestDialBesideSilentHosts(t *testing.T) {
	const hosts = 4
	called, answer := make(chan struct{}, hosts), make(chan struct{})
	var calls sync.WaitGroup
	defer calls.Wait()
	defer close(answer)
	for range hosts {
		calls.Go(func() {
			dialing.run(func() {
				called <- struct{}{}
				<-answer
			})
		})
	}
	guard := time.After(verbstest.Patience)
	for i := range hosts {
		select {
		case <-called:
		case <-guard:
			t.Fatalf("only %d of %d hosts are called", i, hosts)
		}
	}
}

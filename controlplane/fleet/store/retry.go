package store

import (
	"context"
	"math/rand/v2"
	"time"
)

// The bounds of the time between two tries of Retry.
const (
	firstWait   = 500 * time.Millisecond
	longestWait = 30 * time.Second
)

// Retry calls work until ctx ends, and calls failed with each error. It pauses before the next
// try, for longer and longer, and after work that succeeded at first only briefly again. The
// pauses are random, so that rdmads that lose etcd together do not return together.
func Retry(ctx context.Context, work func(context.Context) (succeeded bool, err error), failed func(error)) {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		succeeded, err := work(ctx)
		if ctx.Err() != nil {
			return
		}
		if succeeded {
			wait = firstWait
		}
		failed(err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(rand.N(wait)):
		}
	}
}

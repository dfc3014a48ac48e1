package rpcrdma

import "github.com/rdmad/rdmad/rpcrdma/fair"

// Shares are what the listener's connections hold of the memory for replies, and of
// that for data that is read.
func (l *Listener) Shares() (replies, fetches fair.Usage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.hosts { // one in tests that ask
		replies, fetches = h.Shares()
	}
	return replies, fetches
}

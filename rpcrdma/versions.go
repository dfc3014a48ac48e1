package rpcrdma

import (
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/transport"
)

const (
	// versionExpiry is how long a server is assumed to speak only version 1.
	versionExpiry = 10 * time.Minute
	// maxVersions limits the servers that are remembered.
	maxVersions = 1024
)

// VersionMemory remembers servers that failed with version 2: the connection was lost
// before the first message was answered, or directly after ERR_VERS. For ten minutes,
// connections to them begin with version 1, unless the settings require version 2. The zero
// value is ready for use. Several clients may share one.
type VersionMemory struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// note records that a server speaks only version 1. When there are too many, it drops any
// one, which is then tried again.
func (m *VersionMemory) note(address string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.until == nil {
		m.until = make(map[string]time.Time)
	}
	for a, t := range m.until {
		if len(m.until) < maxVersions && now.Before(t) {
			continue
		}
		delete(m.until, a)
	}
	m.until[address] = now.Add(versionExpiry)
}

// only1 reports whether a server is assumed to speak only version 1.
func (m *VersionMemory) only1(address string, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t, known := m.until[address]
	if known && !now.Before(t) {
		delete(m.until, address)
		return false
	}
	return known
}

// remember records a connection that has ended without a good answer.
func (c *Client) remember(r *transport.Requester) {
	if r.Unsure() {
		c.cfg.Versions.note(c.address, time.Now())
	}
}

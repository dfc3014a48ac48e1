package rpcrdma

import (
	"sync"
	"time"
)

const (
	// versionExpiry is how long a server is taken for one that speaks version
	// 1 alone.
	versionExpiry = 10 * time.Minute
	// maxVersions bounds the servers that are remembered.
	maxVersions = 1024
)

// VersionMemory remembers servers with which version 2 came to nothing: the
// connection was lost before the first message was answered, or right after
// ERR_VERS. For ten minutes connections to them begin with version 1, unless
// the settings require version 2. The zero value is ready; several clients may
// have one together.
type VersionMemory struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// note takes a server for one that speaks version 1 alone. When there are too
// many, any is forgotten: it is asked once more.
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

// only1 says whether a server is taken for one that speaks version 1 alone.
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

// remember notes a session that has ended, if it never came to a good answer.
func (c *Client) remember(s *session) {
	if s.req.Unsure() {
		c.cfg.Versions.note(c.address, time.Now())
	}
}

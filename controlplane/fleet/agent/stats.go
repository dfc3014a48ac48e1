package agent

import (
	"maps"
	"sync"
	"time"
)

// Stats are what an agent counts, for metrics.
type Stats struct {
	Joined            bool
	Assigned, Applied int64 // revisions of the newest assignment read, and of that in force
	Drift             bool
	Lag               time.Duration     // for which the newest assignment is not in force
	Errors            map[string]uint64 // that ended the connection to etcd, by the condition's reason
}

// stats are the Stats as they change.
type stats struct {
	mu     sync.Mutex
	now    Stats     // but Lag
	behind time.Time // since when Applied is not Assigned; zero if it is
}

// Stats returns the counters at a time.
func (a *Agent) Stats(now time.Time) Stats {
	a.stats.mu.Lock()
	defer a.stats.mu.Unlock()
	s := a.stats.now
	s.Errors = maps.Clone(s.Errors)
	if !a.stats.behind.IsZero() {
		s.Lag = max(now.Sub(a.stats.behind), 0)
	}
	return s
}

// joined notes whether the node is in the fleet.
func (s *stats) joined(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Joined = yes
}

func (s *stats) failed(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Errors[reason]++
}

// reported notes what a report says.
func (s *stats) reported(assigned, applied int64, pinned bool, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now.Assigned, s.now.Applied = assigned, applied
	behind := assigned != 0 && assigned != applied
	s.now.Drift = behind || pinned
	switch {
	case !behind:
		s.behind = time.Time{}
	case s.behind.IsZero():
		s.behind = now
	}
}

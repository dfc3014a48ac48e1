package planetest

import (
	"maps"
	"slices"
	"sync"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// limits implements manager.LimitsSet over a plane. The file has no limits.
type limits struct {
	p *Plane

	mu  sync.Mutex
	now spec.Limits
}

// Get implements manager.LimitsSet.
func (l *limits) Get() (spec.Limits, []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, slices.Sorted(maps.Keys(spec.Difference(&spec.Limits{}, &l.now)))
}

// Set implements manager.LimitsSet.
func (l *limits) Set(change func(*spec.Limits), unset func(*spec.Field) bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now
	spec.Copy(&now, &spec.Limits{}, unset)
	change(&now)
	if err := now.Check(); err != nil {
		return err
	}
	l.now = now
	l.p.setLimits(&now)
	return nil
}

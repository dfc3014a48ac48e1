package fair

import "sync/atomic"

// Mark lets a walk over all connections leave out those that did nothing since the last walk.
// A connection sets it whenever something changes that the walk reads. The walk clears it
// before it reads.
type Mark struct{ set atomic.Bool }

// Set sets the mark. Between two walks, all calls but the first only read it. With a nil Mark it
// does nothing.
func (m *Mark) Set() {
	if m != nil && !m.set.Load() {
		m.set.Store(true)
	}
}

// IsSet reports whether the mark is set.
func (m *Mark) IsSet() bool { return m.set.Load() }

// Clear clears the mark.
func (m *Mark) Clear() { m.set.Store(false) }

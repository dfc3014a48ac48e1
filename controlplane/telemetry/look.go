package telemetry

import (
	"slices"
	"sync"
	"time"
	"weak"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

// Plane is the data plane to measure.
type Plane interface {
	Connections() []dataplane.ConnInfo
	Connection(id string) (dataplane.ConnInfo, error)
	Stats() []*dataplane.ListenerStats
}

// Look has the counters at one moment. Samplers share it, so it must not be changed.
type Look struct {
	at            time.Time
	listeners     map[string]*dataplane.ListenerStats
	connections   []counters // by id
	connectionsAt time.Time
	samples       memo[weak.Pointer[Look], *Sample] // that end with it, by the look that they begin with
}

// counters are those of a connection.
type counters struct {
	id         string
	stats      rpcrdma.Stats
	inProgress int
	credits    uint32
}

// lookAt makes a look.
func lookAt(now time.Time, listeners map[string]*dataplane.ListenerStats, conns []dataplane.ConnInfo) *Look {
	l := &Look{at: now, listeners: listeners, connections: make([]counters, len(conns)), connectionsAt: now}
	for i := range conns {
		c := &conns[i]
		l.connections[i] = counters{c.ID, c.Stats, c.InFlight, c.CreditsGranted}
	}
	slices.SortFunc(l.connections, func(a, b counters) int { return dataplane.CompareID(a.id, b.id) })
	return l
}

// Source takes a look, or returns one that another sampler took after last, in the same cell of
// time. Time is divided into cells for each length; of length 0, a cell is a moment.
type Source func(now, last time.Time, cell time.Duration) *Look

// Looks are shared by the samplers of a data plane. One look at all connections reads the
// counters of each, so without sharing many streams would cost many times as much.
type Looks struct {
	plane       Plane
	began       time.Time
	totals, all shared
}

// NewLooks returns the looks at a data plane. Cells of time begin now.
func NewLooks(p Plane, now time.Time) *Looks { return &Looks{plane: p, began: now} }

// Totals is the Source without connections.
func (l *Looks) Totals(now, last time.Time, cell time.Duration) *Look {
	return l.totals.take(l.newer(now, last, cell), func() *Look { return lookAt(now, l.byName(), nil) })
}

// All is the Source with all connections.
func (l *Looks) All(now, last time.Time, cell time.Duration) *Look {
	return l.all.take(l.newer(now, last, cell), func() *Look { return lookAt(now, l.byName(), l.plane.Connections()) })
}

// Some is the Source with some connections, as far as they are up. The totals may be those of
// another sampler. The connections are read now.
func (l *Looks) Some(ids []string) Source {
	return func(now, last time.Time, cell time.Duration) *Look {
		totals := l.Totals(now, last, cell)
		var up []dataplane.ConnInfo
		for _, id := range ids {
			if c, err := l.plane.Connection(id); err == nil {
				up = append(up, c)
			}
		}
		out := lookAt(now, totals.listeners, up)
		out.at = totals.at
		return out
	}
}

// newer is the time after which a look must have been taken: the later one of last, and the
// last moment before the cell of now.
func (l *Looks) newer(now, last time.Time, cell time.Duration) time.Time {
	before := l.began.Add(now.Sub(l.began).Truncate(cell) - 1)
	if before.Before(last) {
		return last
	}
	return before
}

func (l *Looks) byName() map[string]*dataplane.ListenerStats {
	all := make(map[string]*dataplane.ListenerStats)
	for _, s := range l.plane.Stats() {
		all[s.Name] = s
	}
	return all
}

// shared is the last look, for as long as a sampler has it.
type shared struct {
	mu   sync.Mutex
	last weak.Pointer[Look]
}

// take returns the last look if it is new enough, or else takes one.
func (s *shared) take(newer time.Time, see func() *Look) *Look {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.last.Value(); l != nil && l.at.After(newer) {
		return l
	}
	l := see()
	s.last = weak.Make(l)
	return l
}

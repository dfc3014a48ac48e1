package history

import "slices"

// Bounds of a log. A rollback over many scopes makes an entry of many deltas
// of some 500 bytes each. So does another version of the configuration file, or
// of the fleet's policies: its entry has the layer's scopes before and after.
const (
	MaxEntries = 1000
	MaxDeltas  = 16384
)

// deltas is what an entry counts for MaxDeltas.
func deltas(e *Entry) int {
	n := len(e.Step.Deltas)
	if f := e.Step.File; f != nil {
		n += len(f.Before.Scopes) + len(f.After.Scopes)
	}
	if f := e.Step.Fleet; f != nil {
		n += len(f.Before.Scopes) + len(f.After.Scopes)
	}
	return n
}

// Log has the last entries, with consecutive revisions. When a bound is passed, the oldest
// entries are dropped. The zero Log is empty.
type Log struct {
	entries []*Entry // the oldest first
	deltas  int
}

// Excess lists the revisions that adding e would drop, the oldest first.
func (l *Log) Excess(e *Entry) []uint32 {
	var out []uint32
	sum := l.deltas + deltas(e)
	for i, old := range l.entries {
		if len(l.entries)-i < MaxEntries && sum <= MaxDeltas {
			break
		}
		sum -= deltas(old)
		out = append(out, old.Revision)
	}
	return out
}

// Restore appends an entry that is stored. Unlike Add, it drops none: the caller has not dropped
// them from what is stored. The next Add drops the excess.
func (l *Log) Restore(e *Entry) {
	l.entries = append(l.entries, e)
	l.deltas += deltas(e)
}

// Add appends e, which must have the next revision, and drops the excess.
func (l *Log) Add(e *Entry) {
	for range l.Excess(e) {
		l.deltas -= deltas(l.entries[0])
		l.entries[0] = nil
		l.entries = l.entries[1:]
	}
	l.entries = append(l.entries, e)
	l.deltas += deltas(e)
}

// Find returns the entry of a revision, or nil.
func (l *Log) Find(revision uint32) *Entry {
	if i, ok := l.index(revision); ok {
		return l.entries[i]
	}
	return nil
}

// Replace replaces the entry with the same revision, if there is one.
func (l *Log) Replace(e *Entry) {
	if i, ok := l.index(e.Revision); ok {
		l.deltas += deltas(e) - deltas(l.entries[i])
		l.entries[i] = e
	}
}

func (l *Log) index(revision uint32) (int, bool) {
	if len(l.entries) == 0 || revision < l.entries[0].Revision {
		return 0, false
	}
	i := revision - l.entries[0].Revision
	return int(i), i < uint32(len(l.entries))
}

// Newest lists up to limit entries, the newest first: those older than revision before, or the
// newest if before is 0. A limit under 1 means all.
func (l *Log) Newest(before uint32, limit int) []*Entry {
	n := len(l.entries)
	if before != 0 && n > 0 {
		n = int(min(max(int64(before)-int64(l.entries[0].Revision), 0), int64(n)))
	}
	if limit < 1 || limit > n {
		limit = n
	}
	out := slices.Clone(l.entries[n-limit : n])
	slices.Reverse(out)
	return out
}

// Since lists the entries after a revision, the newest first. It returns false if the log does
// not reach back that far, or if the revision does not exist yet.
func (l *Log) Since(revision uint32) ([]*Entry, bool) {
	if n := len(l.entries); n == 0 || revision+1 < l.entries[0].Revision || revision > l.entries[n-1].Revision {
		return nil, false
	}
	from := revision + 1 - l.entries[0].Revision
	out := slices.Clone(l.entries[from:])
	slices.Reverse(out)
	return out, true
}

// Oldest returns the oldest revision to which a rollback is possible, or false.
func (l *Log) Oldest() (uint32, bool) {
	if len(l.entries) == 0 {
		return 0, false
	}
	return l.entries[0].Revision - 1, true
}

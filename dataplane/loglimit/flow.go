package loglimit

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"time"
)

const (
	maxPeers   = 64 // counted by name in a period, per kind
	namedPeers = 5  // named in a count
)

// flow counts the lines of a kind in the current period. The limiter's lock guards it.
type flow struct {
	kind
	began, ends time.Time
	flood       bool              // the previous period belonged to a flood
	left        int               // lines that may pass
	lines       int               // in this period
	held        uint64            // lines held back
	peers       map[string]uint64 // lines held back, by peer
	example     line              // the first that was held back
}

func (f *flow) begin(now time.Time, left int) {
	f.began, f.ends = now, now.Add(Period)
	f.flood, f.left, f.lines, f.held = left < burst, left, 0, 0
	f.peers, f.example = nil, line{}
}

// roll begins the next period if the current one is over. It returns the line with the
// counts, if lines were held back. A flood ends with a period of few lines.
func (f *flow) roll(now time.Time, out slog.Handler) (due line) {
	if now.Before(f.ends) {
		return line{}
	}
	if f.held > 0 {
		due = f.count(now, out)
	}
	left := burst
	if f.lines > burst && now.Before(f.ends.Add(Period)) {
		left = floodBurst
	}
	f.begin(now, left)
	return due
}

// passes counts a line and reports whether it passes.
func (f *flow) passes(peer string) bool {
	f.lines++
	_, known := f.peers[peer]
	if f.left == 0 || (f.flood && known) {
		return false
	}
	f.left--
	if f.flood {
		f.know(peer)
	}
	return true
}

// hold counts a line that does not pass.
func (f *flow) hold(peer string) {
	f.held++
	if f.know(peer) {
		f.peers[peer]++
	}
}

// know reports whether a peer is counted by name.
func (f *flow) know(peer string) bool {
	if _, ok := f.peers[peer]; ok {
		return true
	}
	if len(f.peers) == maxPeers {
		return false
	}
	if f.peers == nil {
		f.peers = make(map[string]uint64)
	}
	f.peers[peer] = 0
	return true
}

// count returns the line with the number of lines held back, and the peers that caused most
// of them.
func (f *flow) count(now time.Time, out slog.Handler) line {
	c := line{out, slog.NewRecord(now, f.level, f.message, 0)}
	if f.exact { // the lines are the same
		c = f.example
		c.record.Time = now
	}
	c.record.AddAttrs(slog.Uint64("more", f.held), slog.Duration("in", now.Sub(f.began).Round(100*time.Millisecond)))
	if most := f.most(); len(most) > 0 {
		c.record.AddAttrs(slog.GroupAttrs("peers", most...))
	}
	return c
}

// most returns the counts of the peers with the most lines, and of all others.
func (f *flow) most() (out []slog.Attr) {
	names := slices.SortedFunc(maps.Keys(f.peers), func(a, b string) int {
		return cmp.Or(cmp.Compare(f.peers[b], f.peers[a]), cmp.Compare(a, b))
	})
	others := f.held - f.peers[""]
	for _, name := range names {
		if n := f.peers[name]; name != "" && n > 0 && len(out) < namedPeers {
			out = append(out, slog.Uint64(name, n))
			others -= n
		}
	}
	if others > 0 {
		out = append(out, slog.Uint64("others", others))
	}
	return out
}

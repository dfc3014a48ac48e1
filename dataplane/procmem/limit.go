package procmem

import "fmt"

const (
	// MinGo is the least limit of the Go runtime, in bytes. With less it would
	// collect garbage all the time.
	MinGo = 48 << 20

	// The process may exceed its limit by overhead bytes and a tenth of the limit:
	// program text, C libraries, thread stacks, and garbage that is not collected yet.
	// A control group has to allow that.
	overhead = 64 << 20
	tenth    = 10
)

// Limit is a limit of the process's memory, and where it comes from.
type Limit struct {
	Bytes int64
	// Source is "default", "limits.memory", "operator", or the control group.
	Source string
	// Asked is the limit that limits.memory or an operator asks for. It differs
	// from Bytes if the control group allows less.
	Asked int64
	// Group is the control group's limit.
	Group Group
}

// Lowered reports whether the control group allows less than was asked for.
func (l *Limit) Lowered() bool { return l.Bytes < l.Asked }

// Warning returns what is wrong with the limit and what to do, or "".
func (l *Limit) Warning() string {
	if !l.Lowered() {
		return ""
	}
	return fmt.Sprintf("limits.memory is %s, but %s is %s (%s), which leaves %s: set limits.memory to that or less, or raise it to %s",
		size(l.Asked), l.Group.what(), size(l.Group.Bytes), l.Group.File, size(l.Bytes), size(needs(l.Asked)))
}

// needs returns the least control group limit for a limit of the process.
func needs(limit int64) int64 { return limit + limit/tenth + overhead }

// fits returns the largest limit of the process within a control group's limit.
func fits(group int64) int64 { return (group - overhead) / (tenth + 1) * tenth }

// within returns the limit in force: asked, or less if the control group allows less,
// but never below least.
func within(asked int64, source string, group Group, least int64) Limit {
	l := Limit{Bytes: asked, Asked: asked, Source: source, Group: group}
	if group.Bytes > 0 {
		if n := max(fits(group.Bytes), min(least, asked)); n < asked {
			l.Bytes, l.Source = n, "cgroup"
		}
	}
	return l
}

// mapped returns the most memory outside the Go heap.
func (l *Limit) mapped() int64 { return l.Bytes / 4 * 3 }

// goes returns the Go runtime's limit when mapped bytes are mapped.
func (l *Limit) goes(mapped int64) int64 { return max(l.Bytes-mapped, l.Bytes/4, MinGo) }

// TCP returns the size of each of a TCP service's three pools: calls, replies' items and
// replies' streams. The first two are mapped.
func (l *Limit) TCP() int64 { return l.Bytes / 16 }

// Traces returns the memory of all traces and captures together.
func (l *Limit) Traces() int64 { return l.Bytes / 16 }

// Forward returns the memory of results that wait behind forward for registered memory, of
// all services together.
func (l *Limit) Forward() int64 { return l.Bytes / 16 }

// Registered returns the memory that listeners and connectors divide: all mapped memory
// except for one TCP service's pools.
func (l *Limit) Registered() int64 { return l.mapped() - 2*l.TCP() }

// size formats a number of bytes.
func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%d GiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%d MiB", n>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}

package procmem

import (
	"cmp"
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync"

	"github.com/rdmad/rdmad/verbs/offheap"
)

// Process applies limits to this process. There is one.
type Process struct {
	log     *slog.Logger
	root    string // "/"
	def     int64
	least   int64
	goFixed bool // GOMEMLIMIT is set: the Go runtime's limit is not changed

	before int64 // the Go runtime's limit before New

	mu     sync.Mutex
	file   int64 // limits.memory; 0 when it is not set
	limit  Limit
	warned string
}

// New makes a Process. def is the default limit and least the smallest limit that
// the caller can work with, in bytes.
func New(log *slog.Logger, def, least int64) *Process {
	return &Process{log: log, root: "/", def: def, least: least, goFixed: os.Getenv("GOMEMLIMIT") != "", before: debug.SetMemoryLimit(-1)}
}

// Close restores the limits from before New.
func (p *Process) Close() {
	offheap.SetLimit(math.MaxInt64)
	offheap.Observe(func(int64) {})
	debug.SetMemoryLimit(p.before)
}

// Configured stores the configuration's limits.memory, 0 if it is not set. Limit.Source
// depends on it.
func (p *Process) Configured(limit int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.file = limit
}

// Apply applies limit, or less if the control group allows less. It returns the part for
// registered memory.
func (p *Process) Apply(limit int64) (registered int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.limit = within(limit, p.source(limit), ReadGroup(p.root), p.least)
	l := p.limit
	offheap.SetLimit(l.mapped())
	if !p.goFixed {
		offheap.Observe(func(used int64) { debug.SetMemoryLimit(l.goes(used)) })
	}
	if w := l.Warning(); w != p.warned {
		p.warned = w
		p.warn(w, limit)
	}
	return l.Registered()
}

// Would returns the limit that Apply would put in force; 0 is the default.
func (p *Process) Would(limit int64) Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	limit = cmp.Or(limit, p.def)
	return within(limit, p.source(limit), ReadGroup(p.root), p.least)
}

// warn logs text. It is a warning only if more was requested than the control group allows,
// and not if only the default is more.
func (p *Process) warn(text string, asked int64) {
	level := slog.LevelWarn
	if p.source(asked) == "default" {
		level = slog.LevelInfo
	}
	if text != "" {
		p.log.Log(context.Background(), level, "less memory than limits.memory", "reason", text)
	}
}

func (p *Process) source(limit int64) string {
	switch {
	case p.file != 0 && limit == p.file:
		return "limits.memory"
	case p.file == 0 && limit == p.def:
		return "default"
	}
	return "operator"
}

// Limit returns the current limit.
func (p *Process) Limit() Limit {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.limit
}

// Expected returns the limit that a process in this control group would have. limit is
// limits.memory, 0 if it is not set. root is the root of the machine's files.
func Expected(root string, limit, def, least int64) Limit {
	p := Process{file: limit, def: def}
	if limit == 0 {
		limit = def
	}
	return within(limit, p.source(limit), ReadGroup(root), least)
}

// Package loglevel holds the level of rdmad's log. Operators change it while rdmad runs.
package loglevel

import (
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
)

// Default is the origin of a level that was not given.
const Default = "default"

// all are the levels, the most detailed first.
var all = []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}

// Names returns the names of the levels, the most detailed first.
func Names() (names []string) {
	for _, l := range all {
		names = append(names, Name(l))
	}
	return names
}

// Name returns the name of a level, such as info.
func Name(l slog.Level) string { return strings.ToLower(l.String()) }

// Parse returns the level with a name. Upper case and lower case are the same.
func Parse(name string) (l slog.Level, ok bool) {
	i := slices.IndexFunc(all, func(l slog.Level) bool { return strings.EqualFold(name, l.String()) })
	if i < 0 {
		return l, false
	}
	return all[i], true
}

// Setting is a level and its origin.
type Setting struct {
	Level slog.Level // of the least severe lines that are logged
	// Origin is Default, or the name of the flag, the environment variable or the
	// operator that set the level.
	Origin string
}

// Level is the level of a log. Its methods may be called from any goroutine.
type Level struct{ now atomic.Pointer[Setting] }

var _ slog.Leveler = (*Level)(nil)

// New returns a level.
func New(s Setting) *Level {
	l := new(Level)
	l.now.Store(&s)
	return l
}

// Level implements slog.Leveler.
func (l *Level) Level() slog.Level { return l.now.Load().Level }

// Get returns the level and its origin.
func (l *Level) Get() Setting { return *l.now.Load() }

// Set replaces the level, and returns the one before.
func (l *Level) Set(s Setting) (before Setting) { return *l.now.Swap(&s) }

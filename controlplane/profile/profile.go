// Package profile takes profiles of this process, in the formats of go tool pprof and go tool
// trace.
package profile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"sync"
	"time"
)

// ErrBusy means that another profile over a time is being taken.
var ErrBusy = errors.New("another profile is being taken")

// kind is a kind of profile. One with begin is taken over a time, the others show a moment.
type kind struct {
	name  string
	begin func(io.Writer) error
	end   func(io.Writer) error
}

var kinds = []kind{
	{"allocs", nil, lookup("allocs")},
	{"block", only(func() { runtime.SetBlockProfileRate(1) }), func(w io.Writer) error {
		runtime.SetBlockProfileRate(0)
		return lookup("block")(w)
	}},
	{"cpu", pprof.StartCPUProfile, only(pprof.StopCPUProfile)},
	{"goroutine", nil, lookup("goroutine")},
	{"heap", nil, lookup("heap")},
	{"mutex", only(func() { runtime.SetMutexProfileFraction(1) }), func(w io.Writer) error {
		runtime.SetMutexProfileFraction(0)
		return lookup("mutex")(w)
	}},
	{"threadcreate", nil, lookup("threadcreate")},
	{"trace", trace.Start, only(trace.Stop)},
}

func lookup(name string) func(io.Writer) error {
	return func(w io.Writer) error { return pprof.Lookup(name).WriteTo(w, 0) }
}

// only makes a step that calls f and writes nothing.
func only(f func()) func(io.Writer) error {
	return func(io.Writer) error {
		f()
		return nil
	}
}

func find(name string) (k kind, ok bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return k, false
	}
	return kinds[i], true
}

// Timed reports whether a profile is taken over a time.
func Timed(name string) bool {
	k, _ := find(name)
	return k.begin != nil
}

// taking is locked while a profile over a time is being taken: these slow the process down.
var taking sync.Mutex

// Write takes a profile and writes it. A profile over a time ends after d, or with ctx. Its error
// is ErrBusy while another one is being taken.
func Write(ctx context.Context, w io.Writer, name string, d time.Duration) error {
	k, ok := find(name)
	if !ok {
		return fmt.Errorf("there is no profile %q", name)
	}
	out := &sink{w: w}
	if k.begin != nil {
		if !taking.TryLock() {
			return ErrBusy
		}
		defer taking.Unlock()
		if err := k.begin(out); err != nil {
			return fmt.Errorf("profile %s: %w", name, err)
		}
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	return errors.Join(k.end(out), out.err)
}

// sink keeps the first error of a writer: the runtime ignores them.
type sink struct {
	w   io.Writer
	err error
}

func (s *sink) Write(b []byte) (n int, err error) {
	if s.err == nil {
		n, s.err = s.w.Write(b)
	}
	return n, s.err
}

package manager

import (
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
)

// fit is the number of listeners for which the smallest limit of the memory is enough in a rig.
const fit = int(dataplane.MinMemory / rpcrdma.MinMemoryLimit)

// withListeners is a file with a number of listeners.
func withListeners(n int) *spec.All {
	file := &spec.All{Services: []spec.Service{echoService("test")}}
	for i := range n {
		file.Listeners = append(file.Listeners, onLoopback("l"+strconv.Itoa(i), "test"))
	}
	return file
}

// tooMany checks that an error is that so many listeners are too many, and only that.
func tooMany(t *testing.T, what string, err error, listeners int) {
	t.Helper()
	if all, ok := errors.AsType[ChangeErrors](err); ok && (len(all) != 1 || !all[0].Outside()) {
		t.Errorf("%s: %d errors: %v", what, len(all), all)
	}
	none, ok := errors.AsType[*dataplane.NoMemoryError](err)
	if !ok || none.Listeners != listeners || none.Need != int64(listeners)*rpcrdma.MinMemoryLimit || none.Left != dataplane.MinMemory {
		t.Errorf("%s: %v", what, err)
	}
}

// startError returns the error of a start with a file.
func (r *rig) startError(file *spec.All) error {
	cfg := r.cfg
	cfg.Dataplane = Over(dataplane.New(dataplane.Config{Logger: slog.New(slog.DiscardHandler), Memory: int64(r.fileLimits.Memory)}))
	m := New(cfg)
	defer m.Close()
	return m.Configure(r.t.Context(), file)
}

// TestMemoryForListeners: the start, a reload, an import and commands refuse more listeners than the limit
// of the memory is enough for, in the same words.
func TestMemoryForListeners(t *testing.T) {
	r := newRig(t)
	r.fileLimits.Memory = dataplane.MinMemory
	r.restart(withListeners(fit))
	more := withListeners(fit + 1)
	start := r.startError(more)
	tooMany(t, "start", start, fit+1)
	if err := r.startError(withListeners(fit)); err != nil {
		t.Errorf("start with as many as fit: %v", err)
	}
	reload := r.reloadAll(more, drainTime)
	tooMany(t, "reload", reload, fit+1)
	if start.Error() != reload.Error() {
		t.Errorf("start: %v; reload: %v", start, reload)
	}
	_, err := r.PrepareImport(t.Context(), &Wanted{All: *more})
	tooMany(t, "import", err, fit+1)
	_, err = r.Listeners.Add(t.Context(), onLoopback("added", "test"))
	tooMany(t, "command", err, fit+1)
	if n := len(r.Listeners.List()); n != fit {
		t.Errorf("%d listeners", n)
	}
	if _, err := r.Listeners.Remove(t.Context(), "l0", drainTime); err != nil {
		t.Fatal(err)
	}
	r.addListener(onLoopback("added", "test"))
}

// TestMemoryChangesWithListeners: a file that raises the limit of the memory may have the listeners for
// which that is enough. If it is discarded, the limit is as before. No limit becomes too small for the
// listeners that are there.
func TestMemoryChangesWithListeners(t *testing.T) {
	r := newRig(t)
	r.fileLimits.Memory = dataplane.MinMemory
	r.restart(withListeners(fit))
	limits := spec.Limits{Memory: 2 * dataplane.MinMemory}
	p, err := r.Prepare(t.Context(), withListeners(2*fit), limits)
	if err != nil {
		t.Fatal(err)
	}
	p.Discard()
	if now := r.data.Memory(); now != dataplane.MinMemory {
		t.Errorf("%d bytes after a discarded file", now)
	}
	if p, err = r.Prepare(t.Context(), withListeners(2*fit), limits); err != nil {
		t.Fatal(err)
	}
	p.Commit(0)()
	if n, now := len(r.Listeners.List()), r.data.Memory(); n != 2*fit || now != 2*dataplane.MinMemory {
		t.Errorf("%d listeners with %d bytes", n, now)
	}
	_, err = r.Prepare(t.Context(), withListeners(2*fit), spec.Limits{Memory: dataplane.MinMemory})
	tooMany(t, "reload", err, 2*fit)
	_, err = r.PrepareImport(t.Context(), &Wanted{Limits: &spec.Limits{Memory: dataplane.MinMemory}})
	tooMany(t, "import", err, 2*fit)
	set := func(memory spec.Size) error {
		return r.setLimits(func(l *spec.Limits) { l.Memory = memory }, nil)
	}
	tooMany(t, "command", set(dataplane.MinMemory), 2*fit)
	if l, changed := r.Limits.Get(); l.Memory != limits.Memory || len(changed) != 0 {
		t.Errorf("%v, changed %v", l.Memory, changed)
	}
	if err := set(3 * dataplane.MinMemory); err != nil {
		t.Errorf("a higher limit: %v", err)
	}
	if p, err = r.Prepare(t.Context(), withListeners(1), spec.Limits{Memory: dataplane.MinMemory}); err != nil {
		t.Fatalf("fewer listeners: %v", err)
	}
	p.Commit(0)()
}

// TestAdditionsBeyondTheMemory: a start with too little memory for what operators added lists that as
// failed. With more memory it can be added again.
func TestAdditionsBeyondTheMemory(t *testing.T) {
	r := newRig(t)
	file, more := withListeners(fit), spec.Size(2*dataplane.MinMemory)
	r.fileLimits.Memory = more
	r.restart(file)
	r.addListener(onLoopback("added", "test"))
	r.fileLimits.Memory = dataplane.MinMemory
	r.restart(file)
	if l := r.listener("added"); l.State != StateFailed || !strings.HasPrefix(l.Failure, "4 listeners need ") || len(r.Listeners.List()) != fit+1 {
		t.Errorf("%+v of %d", l, len(r.Listeners.List()))
	}
	p, err := r.Prepare(t.Context(), file, spec.Limits{Memory: more})
	if err != nil {
		t.Fatal(err)
	}
	p.Commit(0)()
	r.data.SetMemory(int64(more)) // as the daemon applies it
	r.addListener(onLoopback("added", "test"))
}

// TestMemoryWithoutNewListeners: a limit that no listener needs is not in force before the commit, nor by
// a dry run.
func TestMemoryWithoutNewListeners(t *testing.T) {
	r := newRig(t)
	r.fileLimits.Memory = dataplane.MinMemory
	r.restart(withListeners(1))
	changed := withListeners(1)
	changed.Listeners[0].Limits.Connections = 7
	p, err := r.Prepare(t.Context(), changed, spec.Limits{Memory: 2 * dataplane.MinMemory})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Discard()
	if now := r.data.Memory(); now != dataplane.MinMemory {
		t.Errorf("%d bytes while only prepared", now)
	}
}

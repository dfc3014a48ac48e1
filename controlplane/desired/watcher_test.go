package desired_test

import (
	"errors"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func watchStore(t *testing.T, store *desired.Store) *desired.Watcher {
	t.Helper()
	w := have(store.Watch())(t)
	t.Cleanup(w.Close)
	return w
}

func TestWatchersSeeEveryRevision(t *testing.T) {
	store, _ := start(t)
	set(t, store, change(t, "global", live.DDPMinChunk, 1))
	w := watchStore(t, store)
	set(t, store, change(t, "global", live.DDPMinChunk, 2))
	try(t, store, "global", live.DDPMinChunk, 3)
	must(t, store.Confirm(3))
	try(t, store, "global", live.DDPMinChunk, 4)
	if _, err := store.Rollback(1, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Set(change(t, "global", live.DDPMinChunk, 5), desired.Options{DryRun: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		revision uint32
		kind     history.Kind
		status   history.Status
	}{
		{2, history.Set, history.Applied}, {3, history.Set, history.Pending}, {3, history.Set, history.Confirmed},
		{4, history.Set, history.Pending}, {4, history.Set, history.RolledBack}, {5, history.Rollback, history.Applied},
	} {
		e := <-w.Events()
		if e.Revision != want.revision || e.Kind != want.kind || e.Status != want.status {
			t.Errorf("saw %+v, want %+v", e, want)
		}
	}
	select {
	case e := <-w.Events():
		t.Errorf("saw %+v too", e)
	default:
	}
}

// TestSlowWatcherIsDropped: and holds nobody up.
func TestSlowWatcherIsDropped(t *testing.T) {
	store, _ := start(t)
	slow, other := watchStore(t, store), watchStore(t, store)
	for i := range 3000 {
		set(t, store, change(t, "global", live.DDPMinChunk, i))
		if e := <-other.Events(); e.Revision != uint32(i+1) {
			t.Fatalf("saw revision %d, want %d", e.Revision, i+1)
		}
	}
	<-slow.Done()
	if !errors.Is(slow.Err(), watch.ErrSlow) {
		t.Errorf("%v", slow.Err())
	}
	other.Close()
	<-other.Done()
	if other.Err() != nil {
		t.Errorf("closed: %v", other.Err())
	}
}

func TestWatchersEndWithTheStore(t *testing.T) {
	store, _ := start(t)
	w := watchStore(t, store)
	closeStore(t, store)
	<-w.Done()
	if !errors.Is(w.Err(), watch.ErrShutdown) {
		t.Errorf("%v", w.Err())
	}
	if _, err := store.Watch(); !errors.Is(err, watch.ErrShutdown) {
		t.Errorf("after the end: %v", err)
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	store, _ := start(t)
	try(t, store, "global", live.DDPMinChunk, 1)
	closeStore(t, store)
	closeStore(t, store)
	dump := store.Dump()
	for name, f := range map[string]func() error{
		"set": func() error {
			_, err := store.Set(change(t, "global", live.DDPMinChunk, 2), desired.Options{ConfirmWithin: time.Hour})
			return err
		},
		"confirm":  func() error { return store.Confirm(1) },
		"rollback": func() error { _, err := store.Rollback(0, desired.Options{}); return err },
		"load":     func() error { _, err := store.Load(&dump, desired.Options{}); return err },
		"reload":   func() error { _, _, err := store.Reload(settings.FileLayer{}); return err },
	} {
		if err := f(); !errors.Is(err, watch.ErrShutdown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLoad(t *testing.T) {
	store, _ := start(t)
	set(t, store, change(t, "listener/nfs", live.InlineSendMax, 1024))
	set(t, store, change(t, "connection/2", live.InlineSendMax, 2048))
	dump := store.Dump()
	set(t, store, change(t, "global", live.InlineSendMax, 3072))
	set(t, store, change(t, "listener/nfs", live.InlineSendMax, 8192))
	r, err := store.Load(&dump, desired.Options{Comment: "back"})
	if err != nil || r.Revision != 5 || effects(r.Effects) != "1 applied\n3 applied" {
		t.Errorf("%+v, %v", r, err)
	}
	if !equalDumps(store.Dump(), dump) || value(t, store, "connection/2") != "2048 connection/2" {
		t.Errorf("%+v, want %+v", store.Dump(), dump)
	}
	if e := store.History(0, 1)[0]; e.Kind != history.Load || e.Comment != "back" {
		t.Errorf("%+v", e)
	}
	at := uint32(2)
	var stale *settings.StaleError
	if _, err := store.Load(&dump, desired.Options{Expected: &at}); !errors.As(err, &stale) {
		t.Errorf("%v", err)
	}
}

// TestEndsAfterClose: the end of connections may be told
// after the end of the store.
func TestEndsAfterClose(t *testing.T) {
	store, plane := start(t)
	set(t, store, change(t, "connection/1", live.InlineSendMax, 1024))
	closeStore(t, store)
	plane.Disconnect("1", "test")
	store.Ended("1")
	store.Reconcile()
	if d := store.Dump(); len(d.Scopes) != 0 {
		t.Errorf("%+v", d)
	}
}

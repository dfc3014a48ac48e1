package desired_test

import (
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

var errNoRoom = errors.New("no space left on device")

// flakyDisk keeps nothing, and fails when told.
type flakyDisk struct {
	mu      sync.Mutex
	fail    error
	during  func() // called while a record is on its way
	records []*desired.Record
}

func (d *flakyDisk) Commit(r *desired.Record) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.during != nil {
		d.during()
	}
	if d.fail != nil {
		return d.fail
	}
	d.records = append(d.records, r)
	return nil
}

// failWith has it fail from now on, or work again with nil.
func (d *flakyDisk) failWith(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail = err
}

func (d *flakyDisk) Doubt() error { return nil }
func (d *flakyDisk) Close() error { return nil }

// TestWhatCannotBeStoredIsRefused: and nothing of it is in force.
func TestWhatCannotBeStoredIsRefused(t *testing.T) {
	for name, do := range map[string]func(*desired.Store) error{
		"set": func(s *desired.Store) error {
			_, err := s.Set(change(t, "global", live.InlineSendMax, 1024), desired.Options{})
			return err
		},
		"rollback": func(s *desired.Store) error {
			_, err := s.Rollback(0, desired.Options{})
			return err
		},
		"reload": func(s *desired.Store) error {
			_, _, err := s.Reload(fileLayer(live.InlineSendMax, 1024))
			return err
		},
		"load": func(s *desired.Store) error {
			_, err := s.Load(&settings.Dump{}, desired.Options{})
			return err
		},
	} {
		store, plane := start(t)
		disk := &flakyDisk{}
		store.UseDisk(disk)
		set(t, store, change(t, "global", live.InlineSendMax, 2048))
		watcher := have(store.Watch())(t)
		disk.failWith(errNoRoom)
		before, applied := store.Dump(), plane.Applied()
		var e *desired.StorageError
		if err := do(store); !errors.As(err, &e) || !errors.Is(err, errNoRoom) {
			t.Errorf("%s: %v", name, err)
		}
		if after := store.Dump(); !equalDumps(before, after) || plane.Applied() != applied || len(store.History(0, 0)) != 1 {
			t.Errorf("%s: %+v became %+v, applied %d times", name, before, after, plane.Applied()-applied)
		}
		select {
		case e := <-watcher.Events():
			t.Errorf("%s: watchers were told of %+v", name, e)
		default:
		}
		disk.failWith(nil)
		if err := do(store); err != nil || store.Revision() != 2 || len(disk.records) != 2 {
			t.Errorf("%s: with room: %v, revision %d, %d records", name, err, store.Revision(), len(disk.records))
		}
	}
}

// TestEndWhileStoring: settings of a connection that ends while a revision is
// on its way to the disk don't come back with it.
func TestEndWhileStoring(t *testing.T) {
	for name, c := range map[string]settings.Change{
		"its first":    change(t, "connection/1", live.DDPMinChunk, 0),
		"its own":      change(t, "connection/1", live.InlineSendMax, 1024),
		"another's":    change(t, "connection/2", live.InlineSendMax, 1024),
		"all of them":  change(t, "global", live.InlineSendMax, 1024),
		"an older one": change(t, "connection/1", live.DDPMinChunk, 0),
	} {
		store, plane := start(t)
		disk := &flakyDisk{}
		store.UseDisk(disk)
		if name != "its first" {
			set(t, store, change(t, "connection/1", live.RemoteInvalidationUse, 0))
		}
		gone := have(plane.Connection("1"))(t)
		disk.during = func() {
			plane.Disconnect("1", "test")
			store.Ended("1")
		}
		set(t, store, c)
		disk.during = nil
		if s := store.Resolve(gone.ConnKey); !s.RemoteInvalidationUse || s.DDPMinChunk == 0 {
			t.Errorf("%s: the scope of connection 1 lives on: %+v", name, s)
		}
		plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "10.1.2.3:1001"})
		if s := store.Resolve(gone.ConnKey); !s.RemoteInvalidationUse {
			t.Errorf("%s: and is another's now", name)
		}
	}
}

// endingPlane ends connection 1 when somebody asks for connection 2.
type endingPlane struct {
	*planetest.Plane
	store *desired.Store
}

func (p *endingPlane) Connection(id string) (dataplane.ConnInfo, error) {
	if id == "2" && p.store != nil {
		p.store.Ended("1")
	}
	return p.Plane.Connection(id)
}

// TestEndWhileDeciding: nor of one that ends before the revision is on its
// way.
func TestEndWhileDeciding(t *testing.T) {
	plane := &endingPlane{Plane: &planetest.Plane{}}
	store := have(desired.New(plane, slog.New(slog.DiscardHandler), new(rpcrdma.DefaultSettings()), 0))(t)
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "10.1.2.3:1001"})
	plane.Connect(planetest.Peer{ID: "2", Listener: "nfs", Address: "10.1.2.3:1002"})
	one := have(plane.Connection("1"))(t)
	set(t, store, change(t, "connection/1", live.DDPMinChunk, 0))
	set(t, store, change(t, "connection/2", live.DDPMinChunk, 0))
	plane.store = store
	if _, err := store.Rollback(1, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	if s := store.Resolve(one.ConnKey); s.DDPMinChunk == 0 {
		t.Error("the scope of connection 1 lives on")
	}
}

// leavingPlane has a connection end, and reports that, once it was found.
type leavingPlane struct {
	*planetest.Plane
	store *desired.Store // nil while connections stay
}

func (p *leavingPlane) Connection(id string) (dataplane.ConnInfo, error) {
	info, err := p.Plane.Connection(id)
	if err == nil && p.store != nil {
		p.Disconnect(id, "test")
		p.store.Ended(id)
	}
	return info, err
}

// TestEndBeforeFirstSettings: a connection that ends before its first settings are on their way to
// the disk leaves none behind, which nobody could take away.
func TestEndBeforeFirstSettings(t *testing.T) {
	plane := &leavingPlane{Plane: &planetest.Plane{}}
	store := have(desired.New(plane, slog.New(slog.DiscardHandler), new(rpcrdma.DefaultSettings()), 0))(t)
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "10.1.2.3:1001"})
	one := have(plane.Connection("1"))(t)
	plane.store = store
	if r := set(t, store, change(t, "connection/1", live.CreditsMin, 40)); len(r.Effects) != 0 {
		t.Errorf("effects %+v", r.Effects)
	}
	if s := store.Resolve(one.ConnKey); s.CreditsMin == 40 {
		t.Error("the scope of connection 1 lives on")
	}
	set(t, store, change(t, "global", live.CreditsMax, 20)) // does not go with that of connection 1
}

// TestPendingWhileStoring: a disk that hangs does not keep anybody from seeing what waits to be
// confirmed.
func TestPendingWhileStoring(t *testing.T) {
	store, _ := start(t)
	disk := &flakyDisk{}
	store.UseDisk(disk)
	try(t, store, "global", live.InlineSendMax, 1024)
	disk.during = func() {
		seen := make(chan *history.Entry, 1)
		go func() { seen <- store.Pending() }()
		select {
		case e := <-seen:
			if e == nil || e.Revision != 1 {
				t.Errorf("%+v waits", e)
			}
		case <-time.After(10 * time.Second):
			t.Error("no answer")
		}
	}
	if err := store.Confirm(1); err != nil {
		t.Error(err)
	}
	if e := store.Pending(); e != nil {
		t.Errorf("confirmed, and %+v waits", e)
	}
}

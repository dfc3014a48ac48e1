package desired_test

import (
	"errors"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func equalDumps(a, b settings.Dump) bool {
	a.Revision, b.Revision = 0, 0
	return reflect.DeepEqual(a, b)
}

func TestRollback(t *testing.T) {
	store, plane := start(t)
	set(t, store, change(t, "listener/nfs", live.InlineSendMax, 1024))
	one := store.Dump()
	set(t, store, change(t, "global", live.InlineSendMax, 2048, live.DDPMinChunk, 7))
	set(t, store, change(t, "connection/2", live.InlineSendMax, 3072))
	dry, err := store.Rollback(1, desired.Options{DryRun: true})
	if err != nil || dry.Revision != 3 || plane.Applied() != 3 {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	r := have(store.Rollback(1, desired.Options{Actor: history.Actor{Name: "ann"}, Comment: "oops"}))(t)
	// Connection 1 changes in ddp.min_chunk alone.
	if got, want := effects(r.Effects), "1 applied\n2 applied\n3 applied"; got != want || effects(dry.Effects) != want {
		t.Errorf("effects\n%s\nwant\n%s", got, want)
	}
	if !equalDumps(store.Dump(), one) || r.Revision != 4 || value(t, store, "connection/2") != "4096 default" {
		t.Errorf("revision %d: %+v, want %+v", r.Revision, store.Dump(), one)
	}
	e := store.History(0, 1)[0]
	if e.Kind != history.Rollback || e.Target != 1 || e.Actor.Name != "ann" || e.Comment != "oops" || e.Revision != 4 {
		t.Errorf("%+v", e)
	}
	// And forward again.
	if _, err := store.Rollback(3, desired.Options{}); err != nil || value(t, store, "connection/2") != "3072 connection/2" {
		t.Errorf("%v, connection 2 has %s", err, value(t, store, "connection/2"))
	}
	for _, c := range plane.Connections() {
		if want := store.Resolve(c.ConnKey); *c.Settings != *want {
			t.Errorf("connection %s has %+v, want %+v", c.ID, c.Settings, want)
		}
	}
}

func TestRollbackTouchesOnlyWhatChanges(t *testing.T) {
	store, _ := start(t)
	set(t, store, change(t, "listener/nfs", live.InlineReceiveSize, 8192))
	set(t, store, change(t, "connection/3", live.InlineReceiveSize, 8192))
	r := have(store.Rollback(1, desired.Options{}))(t)
	if got := effects(r.Effects); got != "3 applied" {
		t.Errorf("effects\n%s", got)
	}
}

// TestRollbackOfAConnection: what would wait for a reconnect never comes when
// it is the connection's own.
func TestRollbackOfAConnection(t *testing.T) {
	store, _ := start(t)
	set(t, store, change(t, "connection/3", live.InlineReceiveSize, 8192))
	c := change(t, "connection/3")
	c.Unset = settings.KeySet(0).With(live.InlineReceiveSize)
	set(t, store, c)
	r, err := store.Rollback(1, desired.Options{})
	want := "3 unsupported inline.receive_size: version 1 fixes it at connect, 4096 bytes here; " +
		"settings of a connection end with it; set it at listener or peer scope"
	if err != nil || effects(r.Effects) != want {
		t.Errorf("%v, effects\n%s\nwant\n%s", err, effects(r.Effects), want)
	}
}

func TestRollbackIsRefused(t *testing.T) {
	store, _ := start(t)
	if _, err := store.Rollback(0, desired.Options{}); err == nil ||
		err.Error() != "no way back to revision 0: the settings are at revision 0 and nothing older is kept" {
		t.Errorf("%v", err)
	}
	for i := range history.MaxEntries + 3 {
		set(t, store, change(t, "global", live.DDPMinChunk, i))
	}
	for _, revision := range []uint32{0, 1, 2, history.MaxEntries + 4, 1<<32 - 1} {
		_, err := store.Rollback(revision, desired.Options{})
		var e *desired.UnknownRevisionError
		if !errors.As(err, &e) || e.Oldest != 3 || e.Current != history.MaxEntries+3 {
			t.Errorf("%d: %v", revision, err)
		}
	}
	at := uint32(5)
	var stale *settings.StaleError
	if _, err := store.Rollback(4, desired.Options{Expected: &at}); !errors.As(err, &stale) {
		t.Errorf("%v", err)
	}
	if _, err := store.Rollback(3, desired.Options{}); err != nil {
		t.Error(err)
	}
}

func TestRevisionsGoOnOverRestarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	store, _ := open(t, path, defaultFile)
	set(t, store, change(t, "peer/10.0.0.0/8", live.InlineSendMax, 1024))
	set(t, store, change(t, "connection/2", live.InlineSendMax, 2048))
	set(t, store, change(t, "global", live.InlineSendMax, 3072))
	before := store.Dump()
	closeStore(t, store)
	if _, err := store.Set(change(t, "global", live.InlineSendMax, 1024), desired.Options{}); err == nil {
		t.Error("a closed store took a change")
	}

	store, plane := open(t, path, defaultFile)
	if store.Revision() != 3 || !equalDumps(store.Dump(), before) {
		t.Errorf("revision %d: %+v, want %+v", store.Revision(), store.Dump(), before)
	}
	for scope, want := range map[string]string{
		"connection/1": "1024 peer/10.0.0.0/8",
		"connection/2": "3072 global", // another connection now
	} {
		if got := value(t, store, scope); got != want {
			t.Errorf("%s: %s, want %s", scope, got, want)
		}
	}
	if len(store.History(0, 0)) != 3 || store.History(3, 1)[0].Revision != 2 || store.History(2, 5)[0].Revision != 1 {
		t.Errorf("history %s", statuses(store))
	}
	r, err := store.Rollback(0, desired.Options{})
	if err != nil || r.Revision != 4 || plane.Applied() == 0 || value(t, store, "connection/1") != "4096 default" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestHistoryOfAll(t *testing.T) {
	store, _ := start(t)
	c := change(t, "listener/nfs", live.InlineSendMax, 1024)
	c.Unset = settings.KeySet(0).With(live.DDPMinChunk)
	set(t, store, c)
	e := store.History(0, 10)
	if len(e) != 1 || e[0].Scope != c.Scope || e[0].Set != c.Set || e[0].Unset != c.Unset || e[0].Time.IsZero() || e[0].Status != history.Applied {
		t.Errorf("%+v", e)
	}
}

// TestRollbackOfNothing: a rollback that changes nothing is no revision.
func TestRollbackOfNothing(t *testing.T) {
	store, _ := start(t)
	set(t, store, change(t, "global", live.DDPMinChunk, 1))
	set(t, store, change(t, "global", live.DDPMinChunk, 2))
	if r, err := store.Rollback(1, desired.Options{}); err != nil || r.Revision != 3 || r.Unchanged {
		t.Errorf("%+v, %v", r, err)
	}
	for _, revision := range []uint32{1, 1, 3} { // 3 is the current one
		for _, dry := range []bool{true, false} {
			if r, err := store.Rollback(revision, desired.Options{DryRun: dry}); err != nil || !r.Unchanged || r.Revision != 3 || store.Revision() != 3 {
				t.Errorf("to %d: %+v, %v", revision, r, err)
			}
		}
	}
	c := change(t, "global", live.DDPMinChunk, 4)
	if _, err := store.Set(c, desired.Options{ConfirmWithin: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Rollback(4, desired.Options{}); !errors.As(err, new(*desired.UnknownRevisionError)) {
		t.Errorf("to what waits: %v", err)
	}
	if r, err := store.Rollback(3, desired.Options{}); err != nil || r.Unchanged || r.Revision != 5 {
		t.Errorf("out of a window: %+v, %v", r, err)
	}
}

package desired_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// sayings of inline.send_max, one a line.
func sayings(t *testing.T, store *desired.Store, scope string) string {
	t.Helper()
	all, err := store.Explain(change(t, scope).Scope, live.InlineSendMax)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range all {
		line := s.Value + " " + s.Source
		if s.Detail != "" {
			line += " " + s.Detail
		}
		if s.Wins {
			line += " wins"
		}
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

func TestReloadIsARevision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	store, plane := open(t, path, defaultFile)
	applied := plane.Applied()
	if _, ok, err := store.Reload(defaultFile, desired.Options{}); ok || err != nil || store.Revision() != 0 || plane.Applied() != applied {
		t.Errorf("the same file: %v, %v, revision %d", ok, err, store.Revision())
	}
	set(t, store, change(t, "listener/nfs", live.InlineSendMax, 1024))
	r, ok, err := store.Reload(fileLayer(live.InlineSendMax, 2048), desired.Options{Actor: history.Actor{Name: "config file"}})
	if !ok || err != nil || r.Revision != 2 || effects(r.Effects) != "2 applied\n3 applied" {
		t.Errorf("%+v, %v, %v", r, ok, err)
	}
	e := store.History(0, 1)[0]
	if e.Kind != history.Reload || e.Actor.Name != "config file" || e.Set != fileLayer(live.InlineSendMax, 2048).Values ||
		e.Unset != settings.KeySet(0).With(live.CreditsMax) {
		t.Errorf("%+v", e)
	}
	set(t, store, change(t, "global", live.InlineSendMax, 3072))
	if _, ok, err := store.Reload(fileLayer(live.InlineSendMax, 8192), desired.Options{}); !ok || err != nil {
		t.Fatal(err)
	}
	want := "4096 default\n8192 config rdmad.yaml:10\n3072 global wins"
	if got := sayings(t, store, "connection/2"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := sayings(t, store, "connection/1"); got != strings.TrimSuffix(want, " wins")+"\n1024 listener/nfs wins" {
		t.Errorf("got\n%s", got)
	}
	// The same values from other lines are no change, but are told.
	moved := fileLayer(live.DDPMinChunk, 0, live.InlineSendMax, 8192)
	moved.Values.Delete(live.DDPMinChunk)
	if _, ok, err := store.Reload(moved, desired.Options{}); ok || err != nil || store.Revision() != 4 {
		t.Errorf("%v, %v", ok, err)
	}
	if got := sayings(t, store, "global"); !strings.Contains(got, "8192 config rdmad.yaml:12\n") {
		t.Errorf("got\n%s", got)
	}
}

// TestFileRolledBack: the file's values are part of the state that is
// returned to, and stay so until the file says something else.
func TestFileRolledBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	store, _ := open(t, path, defaultFile)
	changed := fileLayer(live.InlineSendMax, 2048)
	if _, ok, err := store.Reload(changed, desired.Options{}); !ok || err != nil {
		t.Fatal(err)
	}
	if _, err := store.Rollback(0, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := store.Reload(changed, desired.Options{}); ok || err != nil {
		t.Errorf("the file that was rolled back came again: %v", err)
	}
	closeStore(t, store)
	store, _ = open(t, path, changed)
	if got := value(t, store, "global"); got != "4096 default" || store.Revision() != 2 {
		t.Errorf("after a restart: %s at revision %d", got, store.Revision())
	}
	closeStore(t, store)
	store, _ = open(t, path, fileLayer(live.InlineSendMax, 1024))
	if got := value(t, store, "global"); got != "1024 config" || store.Revision() != 3 {
		t.Errorf("after a change while down: %s at revision %d", got, store.Revision())
	}
}

func TestReloadIsRefusedWhole(t *testing.T) {
	store, plane := start(t)
	set(t, store, change(t, "listener/nfs", live.CreditsMin, 20))
	applied := plane.Applied()
	for _, c := range []struct {
		f    settings.FileLayer
		want string
	}{
		{fileLayer(live.CreditsMax, 10, live.InlineSendMax, 1024),
			"credits.max: credits.min 20 (listener/nfs) would be above credits.max 10 (config)"},
		{fileLayer(live.CreditsMax, 0), "credits.max: must be between 1 and 1024 calls (is 0)"},
		{fileLayer(live.ExtensionSendDDP, 1), "extensions.send_ddp: extensions.send_ddp on (config) needs extensions.v2, which would be off (default)"},
	} {
		if _, ok, err := store.Reload(c.f, desired.Options{}); ok || err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
	if store.Revision() != 1 || plane.Applied() != applied || value(t, store, "global") != "4096 default" {
		t.Errorf("revision %d, applied %d times", store.Revision(), plane.Applied()-applied)
	}
}

// TestFileWaitsForTheWindow: a file that changed while rdmad was down is
// taken when the revision before it is settled.
func TestFileWaitsForTheWindow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	store, _ := open(t, path, defaultFile)
	try(t, store, "global", live.InlineSendMax, 1024)
	closeStore(t, store)
	store, _ = start(t)
	defer closeStore(t, store)
	changed := fileLayer(live.DDPMinChunk, 0)
	pending, err := store.Open(path, changed, desired.Options{})
	if err != nil || !pending || store.Revision() != 1 {
		t.Fatalf("%v, %v, revision %d", pending, err, store.Revision())
	}
	if err := store.Confirm(1); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := store.Reload(changed, desired.Options{}); !ok || err != nil || value(t, store, "global") != "1024 global" {
		t.Errorf("%v, %v", ok, err)
	}
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	store, _ := open(t, path, defaultFile)
	set(t, store, change(t, "global", live.CreditsMin, 60))
	closeStore(t, store)
	again, _ := start(t)
	_, err := again.Open(path, fileLayer(live.CreditsMax, 10), desired.Options{})
	if want := "settings: rdmad.yaml: credits.max: credits.min 60 (global) would be above credits.max 10 (config)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	closeStore(t, again)
	store, _ = open(t, path, defaultFile)
	if store.Revision() != 1 {
		t.Errorf("revision %d", store.Revision())
	}
}

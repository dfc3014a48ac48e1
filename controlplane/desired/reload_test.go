package desired_test

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/statefile"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// sayings of inline.send_max, one a line.
func sayings(t *testing.T, store *desired.Store, scope string) string {
	t.Helper()
	revision, all, err := store.Explain(change(t, scope).Scope, live.InlineSendMax)
	if err != nil {
		t.Fatal(err)
	}
	if revision != store.Revision() {
		t.Errorf("explained at revision %d, not %d", revision, store.Revision())
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
	if _, ok, err := store.Reload(defaultFile); ok || err != nil || store.Revision() != 0 || plane.Applied() != applied {
		t.Errorf("the same file: %v, %v, revision %d", ok, err, store.Revision())
	}
	set(t, store, change(t, "listener/nfs", live.InlineSendMax, 1024))
	r, ok, err := store.Reload(fileLayer(live.InlineSendMax, 2048))
	if !ok || err != nil || r.Revision != 2 || effects(r.Effects) != "2 applied\n3 applied" {
		t.Errorf("%+v, %v, %v", r, ok, err)
	}
	e := store.History(0, 1)[0]
	if e.Kind != history.Reload || e.Actor.Name != "config file" || e.Set != fileLayer(live.InlineSendMax, 2048).Values ||
		e.Unset != settings.KeySet(0).With(live.CreditsMax) {
		t.Errorf("%+v", e)
	}
	set(t, store, change(t, "global", live.InlineSendMax, 3072))
	if _, ok, err := store.Reload(fileLayer(live.InlineSendMax, 8192)); !ok || err != nil {
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
	if _, ok, err := store.Reload(moved); ok || err != nil || store.Revision() != 4 {
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
	if _, ok, err := store.Reload(changed); !ok || err != nil {
		t.Fatal(err)
	}
	if _, err := store.Rollback(0, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := store.Reload(changed); ok || err != nil {
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
		{fileLayer(live.ExtensionSendDDP, 1), "extensions.send_ddp: extensions.send_ddp on (config) needs extensions.v2, which would be off (default); " +
			"extensions.send_ddp: extensions.send_ddp on (config) needs extensions.xmit, which would be off (default)"},
	} {
		if _, ok, err := store.Reload(c.f); ok || err == nil || err.Error() != c.want {
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
	waits, err := store.Open(path, changed)
	if err != nil || !errors.As(waits, new(*desired.PendingError)) || store.Revision() != 1 {
		t.Fatalf("%v, %v, revision %d", waits, err, store.Revision())
	}
	must(t, store.Confirm(1))
	if _, ok, err := store.Reload(changed); !ok || err != nil || value(t, store, "global") != "1024 global" {
		t.Errorf("%v, %v", ok, err)
	}
}

// TestConflictingFileWaits: a file that conflicts with settings of operators does not
// keep the store from opening. The file's earlier values stay in force until the conflict
// is gone.
func TestConflictingFileWaits(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	store, _ := open(t, path, fileLayer(live.CreditsMax, 70))
	set(t, store, change(t, "global", live.CreditsMin, 60))
	closeStore(t, store)
	store, _ = start(t)
	defer closeStore(t, store)
	conflicting := fileLayer(live.CreditsMax, 10)
	waits, err := store.Open(path, conflicting)
	if want := "credits.max: credits.min 60 (global) would be above credits.max 10 (config)"; err != nil || waits == nil || waits.Error() != want {
		t.Fatalf("waits for %v, want %s; %v", waits, want, err)
	}
	if e, err := store.Get(settings.Scope{}); err != nil || e.Values.Format(live.CreditsMax) != "70" || store.Revision() != 1 {
		t.Errorf("credits.max %s at revision %d, %v", e.Values.Format(live.CreditsMax), store.Revision(), err)
	}
	c := settings.Change{Unset: settings.KeySet(0).With(live.CreditsMin)}
	set(t, store, c)
	if _, ok, err := store.Reload(conflicting); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// scopedFile is a file that gives a setting at a scope.
func scopedFile(t *testing.T, scope string, k settings.Key, value uint32) settings.FileLayer {
	t.Helper()
	var v settings.FileValues
	v.Values.Set(k, value)
	v.Lines[k] = 3
	return settings.FileLayer{Name: "rdmad.yaml", Scopes: map[settings.Scope]settings.FileValues{change(t, scope).Scope: v}}
}

// TestReloadOfScopes: what the file gives at a scope comes, changes and goes with
// effects on the connections in it, and survives a restart.
func TestReloadOfScopes(t *testing.T) {
	for scope, connection := range map[string]string{"listener/nfs": "1", "peer/10.0.0.0/8": "1", "peer/192.0.2.0/24": "2"} {
		path := filepath.Join(t.TempDir(), "settings.db")
		store, _ := open(t, path, settings.FileLayer{})
		want := connection + " applied"
		if connection == "2" {
			want += "\n3 applied"
		}
		reload := func(f settings.FileLayer, effect, saying string) {
			t.Helper()
			r, ok, err := store.Reload(f)
			if !ok || err != nil || effects(r.Effects) != effect {
				t.Errorf("%s: %v, %v, effects\n%s\nwant\n%s", scope, ok, err, effects(r.Effects), effect)
			}
			if got := sayings(t, store, "connection/"+connection); got != saying {
				t.Errorf("%s: got\n%s\nwant\n%s", scope, got, saying)
			}
		}
		reload(scopedFile(t, scope, live.InlineSendMax, 2048), want, "4096 default\n2048 config rdmad.yaml:3 wins")
		changed := scopedFile(t, scope, live.InlineSendMax, 1024)
		reload(changed, want, "4096 default\n1024 config rdmad.yaml:3 wins")
		closeStore(t, store)
		store, _ = open(t, path, changed)
		if got := sayings(t, store, "connection/"+connection); store.Revision() != 2 || got != "4096 default\n1024 config rdmad.yaml:3 wins" {
			t.Errorf("%s: after a restart: revision %d, %s", scope, store.Revision(), got)
		}
		set(t, store, change(t, scope, live.InlineSendMax, 3072))
		reload(settings.FileLayer{}, "", "4096 default\n3072 "+scope+" wins")
		if _, err := store.Rollback(2, desired.Options{}); err != nil {
			t.Fatal(err)
		}
		if got := sayings(t, store, "connection/"+connection); got != "4096 default\n1024 config rdmad.yaml:3 wins" {
			t.Errorf("%s: rolled back: %s", scope, got)
		}
		closeStore(t, store)
	}
}

// TestNothingToChange: a change to what is set already is no revision.
func TestNothingToChange(t *testing.T) {
	store, plane := start(t)
	c := change(t, "listener/nfs", live.InlineReceiveSize, 8192)
	if r := set(t, store, c); r.Unchanged || r.Revision != 1 {
		t.Fatalf("%+v", r)
	}
	applied := plane.Applied()
	for range 3 {
		r, err := store.Set(c, desired.Options{ConfirmWithin: desired.ConfirmLeast})
		if err != nil || !r.Unchanged || r.Revision != 1 || !r.ConfirmDeadline.IsZero() || !strings.HasPrefix(effects(r.Effects), "1 pending") {
			t.Errorf("%+v, %v", r, err)
		}
	}
	d := store.Dump()
	if r, err := store.Load(&d, desired.Options{}); err != nil || !r.Unchanged || r.Revision != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	unset := settings.Change{Unset: settings.KeySet(0).With(live.CreditsWeight)}
	if r := set(t, store, unset); !r.Unchanged {
		t.Errorf("%+v", r)
	}
	if store.Revision() != 1 || len(store.History(0, 0)) != 1 || plane.Applied() != applied {
		t.Errorf("revision %d, %d in the history, applied %d times", store.Revision(), len(store.History(0, 0)), plane.Applied()-applied)
	}
	stale := uint32(0)
	c.Expected = &stale
	if _, err := store.Set(c, desired.Options{}); err == nil {
		t.Error("a stale revision is taken")
	}
}

// TestElementsAreStoredAtOnce: elements come with the settings of an import, or with no revision if
// the settings stay, and nothing comes if they can't be stored.
func TestElementsAreStoredAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	store, _ := open(t, path, defaultFile)
	imports := func(max int, elements string, dry bool) (desired.Result, error) {
		v := change(t, "global", live.CreditsMax, max).Set
		return store.Import(&v, nil, desired.Options{Elements: []byte(elements), DryRun: dry})
	}
	check := func(revision uint32, want string) {
		t.Helper()
		c, err := statefile.Read(path)
		if err != nil || c.Revision != revision || string(c.Elements) != want || string(store.Elements()) != want {
			t.Errorf("%+v, %v; there are %s", c, err, store.Elements())
		}
	}
	if r, err := imports(32, `{"a":1}`, true); err != nil || r.Unchanged {
		t.Errorf("%+v, %v", r, err)
	}
	check(0, "")
	if r, err := imports(32, `{"a":1}`, false); err != nil || r.Revision != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	check(1, `{"a":1}`)
	if r, err := imports(32, `{"a":2}`, false); err != nil || !r.Unchanged {
		t.Errorf("%+v, %v", r, err)
	}
	check(1, `{"a":2}`)
	if _, err := imports(0, `{"a":3}`, false); err == nil {
		t.Error("a setting out of range")
	}
	check(1, `{"a":2}`)
	if err := store.ElementsDone(); err != nil {
		t.Error(err)
	}
	check(1, "")
}

// TestManyVersionsOfALargeFile: however often a configuration file with many scopes changes, the
// next start can read the history of that.
func TestManyVersionsOfALargeFile(t *testing.T) {
	const versions = 130
	path := filepath.Join(t.TempDir(), "settings.db")
	file := func(version uint32) settings.FileLayer {
		f := settings.FileLayer{Name: "rdmad.yaml", Scopes: make(map[settings.Scope]settings.FileValues)}
		one := settings.FileValues{Values: live.Of(new(live.Default()))}
		one.Values.Set(live.DDPMinChunk, version)
		for k := range live.NumKeys {
			one.Lines[k] = 10_000
		}
		for i := range settings.MaxScopes {
			f.Scopes[settings.Scope{Kind: settings.Listener, Name: strconv.Itoa(i)}] = one
		}
		return f
	}
	store, _ := open(t, path, file(0))
	for version := range uint32(versions) {
		if _, _, err := store.Reload(file(version + 1)); err != nil {
			t.Fatal(err)
		}
	}
	closeStore(t, store)
	again, _ := open(t, path, file(versions))
	if n := again.Revision(); n != versions {
		t.Errorf("revision %d", n)
	}
	if kept := len(again.History(0, 0)); kept < 10 || kept == versions {
		t.Errorf("%d revisions are kept", kept)
	}
}

// TestChangedFileWithoutRoom: a start does not fail because the settings of a changed file can't be
// stored. Those before stay in force until there is room.
func TestChangedFileWithoutRoom(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.db")
	store, _ := open(t, path, fileLayer(live.InlineSendMax, 2048))
	set(t, store, change(t, "listener/nfs", live.InlineSendMax, 1024))
	closeStore(t, store)
	full := filepath.Join(dir, "s."+strings.Repeat("d", 253)) // no name is left for what replaces it
	must(t, os.Rename(path, full))
	store, _ = start(t)
	t.Cleanup(func() { closeStore(t, store) })
	changed := fileLayer(live.InlineSendMax, 8192)
	waits, err := store.Open(full, changed)
	if err != nil || !errors.As(waits, new(*desired.StorageError)) {
		t.Fatalf("waits: %v; %v", waits, err)
	}
	if a, b := value(t, store, "global"), value(t, store, "listener/nfs"); a != "2048 config" || b != "1024 listener/nfs" || store.Revision() != 1 {
		t.Errorf("%s, %s at revision %d", a, b, store.Revision())
	}
	if _, _, err := store.Reload(changed); !errors.As(err, new(*desired.StorageError)) {
		t.Errorf("still without room: %v", err)
	}
	must(t, os.Rename(full, path))
	closeStore(t, store)
	store, _ = open(t, path, changed)
	if got := value(t, store, "global"); got != "8192 config" || store.Revision() != 2 {
		t.Errorf("with room: %s at revision %d", got, store.Revision())
	}
}

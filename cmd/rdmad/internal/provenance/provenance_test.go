package provenance

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/statefile"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

func parse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("rdmad.yaml", []byte(text), config.Options{Providers: []string{"softiwarp"}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const text = "settings:\n  inline: {send_max: 8192}\n  credits: {max: 32}\n"

// stored is a file in which inline.send_max was set globally and ddp.min_chunk
// for a peer, the latter to be confirmed.
func stored(t *testing.T) string {
	t.Helper()
	return storedUntil(t, time.Date(2126, 11, 20, 9, 31, 0, 0, time.UTC))
}

// storedUntil is stored with the end of the confirm window; zero means without one.
func storedUntil(t *testing.T, deadline time.Time) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "settings.db")
	if err := statefile.Create(path, parse(t, text).Layer()); err != nil {
		t.Fatal(err)
	}
	f, _, err := statefile.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	at := time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC)
	for i, c := range []struct {
		scope string
		k     settings.Key
		value uint32
	}{{"global", live.InlineSendMax, 2048}, {"peer/10.0.0.0/8", live.DDPMinChunk, 9}} {
		scope, err := settings.ParseScope(c.scope)
		if err != nil {
			t.Fatal(err)
		}
		d := settings.Delta{Scope: scope}
		d.After.Values.Set(c.k, c.value)
		d.After.Set[c.k] = uint32(i + 1)
		e := &history.Entry{Revision: uint32(i + 1), Time: at, Scope: scope, Step: settings.Step{Deltas: []settings.Delta{d}}}
		if i == 1 && !deadline.IsZero() {
			e.Status, e.Deadline = history.Pending, deadline
		}
		if err := f.Commit(&statefile.Record{Entry: e}); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func table(t *testing.T, c *config.Config, path string) string {
	t.Helper()
	r, err := Make(c, path)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := r.Table(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// expect wants lines, with spaces squeezed, in this order.
func expect(t *testing.T, got string, lines ...string) {
	t.Helper()
	rest := strings.Split(got, "\n")
	for _, want := range lines {
		for {
			if len(rest) == 0 {
				t.Fatalf("no line %q in its place in\n%s", want, got)
			}
			line := strings.Join(strings.Fields(rest[0]), " ")
			rest = rest[1:]
			if line == want {
				break
			}
		}
	}
}

func TestWithoutState(t *testing.T) {
	got := table(t, parse(t, text), filepath.Join(t.TempDir(), "settings.db"))
	expect(t, got, "rdmad.yaml: ok (1 listener, 1 service)", "SETTING VALUE FROM",
		"inline.send_max 8192 config rdmad.yaml:2", "inline.receive_size 4096 default", "credits.max 32 config rdmad.yaml:3", "extensions.ccp off default")
	if strings.Contains(got, "stored") {
		t.Errorf("got\n%s", got)
	}
}

func TestStoredIsShown(t *testing.T) {
	path := stored(t)
	got := table(t, parse(t, "\n"+text), path)
	expect(t, got, "stored settings: "+path+", revision 2, which waits to be confirmed until 2126-11-20T09:31:00Z",
		"inline.send_max 2048 global, revision 1, over 8192 config rdmad.yaml:3", "credits.max 32 config rdmad.yaml:4",
		"ddp.min_chunk 9 peer/10.0.0.0/8, revision 2")
	// A file that says something else waits for the revision.
	other := "settings: {credits: {max: 16}}"
	expect(t, table(t, parse(t, other), path),
		"stored settings: "+path+", revision 2, which waits to be confirmed until 2126-11-20T09:31:00Z: new settings of the file are in force when it is confirmed or rolled back",
		"inline.send_max 2048 global, revision 1, over 8192 config rdmad.yaml:2", "credits.max 32 config rdmad.yaml:3")
	// Without a window, it will be taken when rdmad starts.
	expect(t, table(t, parse(t, other), storedUntil(t, time.Time{})),
		"inline.send_max 2048 global, revision 1", "credits.max 16 config rdmad.yaml:1")
}

// TestNotConfirmedInTime: a change whose confirm window is over is shown as taken back, as rdmad does it at
// its start.
func TestNotConfirmedInTime(t *testing.T) {
	path := storedUntil(t, time.Date(2026, 11, 20, 9, 31, 0, 0, time.UTC))
	got := table(t, parse(t, text+"scopes: {peer/10.0.0.0/8: {ddp: {min_chunk: 8}}}\n"), path)
	expect(t, got, "stored settings: "+path+", revision 2, which was not confirmed until 2026-11-20T09:31:00Z: rdmad takes it back when it starts",
		"inline.send_max 2048 global, revision 1, over 8192 config rdmad.yaml:2", "ddp.min_chunk 8 peer/10.0.0.0/8, config rdmad.yaml:4")
	if got := table(t, parse(t, text), path); strings.Contains(got, "peer/10.0.0.0/8") {
		t.Errorf("got\n%s", got)
	}
}

// TestFleetIsLeft: without the section fleet, rdmad drops the settings of the fleet at its start, also
// those that wait to be confirmed, unless a revision of operators waits.
func TestFleetIsLeft(t *testing.T) {
	const fleet = "fleet: {endpoints: [\"http://127.0.0.1:1\"], node: n1}\n"
	for name, c := range map[string]struct {
		status history.Status
		set    bool // by an operator, to be confirmed
		kept   bool // without the section
	}{
		"in force": {}, "waits": {status: history.Pending}, "behind what waits": {set: true, kept: true},
	} {
		t.Run(name, func(t *testing.T) {
			path := storedUntil(t, time.Time{})
			f, _, err := statefile.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			at := time.Date(2126, 11, 20, 9, 30, 0, 0, time.UTC)
			var v settings.FleetValues
			v.Values.Set(live.CreditsMax, 7)
			v.Policies[live.CreditsMax] = "small@1"
			layer := settings.FleetLayer{Cluster: 1, Assignment: 5, Scopes: map[settings.Scope]settings.FleetValues{{}: v}}
			e := &history.Entry{Revision: 3, Time: at, Kind: history.Fleet, Step: settings.Step{Fleet: &settings.FleetDelta{After: layer}}}
			if e.Status = c.status; c.status == history.Pending {
				e.Deadline = at.Add(time.Hour)
			}
			if err := f.Commit(&statefile.Record{Entry: e}); err != nil {
				t.Fatal(err)
			}
			if c.set {
				e := &history.Entry{Revision: 4, Time: at, Status: history.Pending, Deadline: at.Add(time.Hour)}
				if err := f.Commit(&statefile.Record{Entry: e}); err != nil {
					t.Fatal(err)
				}
			}
			const given, own = "credits.max 7 fleet small@1, over 32 config rdmad.yaml:4", "credits.max 32 config rdmad.yaml:4"
			expect(t, table(t, parse(t, fleet+text), path), given)
			if c.kept {
				expect(t, table(t, parse(t, "\n"+text), path), given)
				return
			}
			got := table(t, parse(t, "\n"+text), path)
			expect(t, got, own)
			if strings.Contains(got, "which waits") {
				t.Errorf("a revision waits in\n%s", got)
			}
			// A file that goes with its own values only is no mistake.
			expect(t, table(t, parse(t, "settings: {credits: {min: 8, max: 32}}\n"), path), "credits.max 32 config rdmad.yaml:1")
		})
	}
}

// TestScopesOfTheFile: a value that the file gives at a scope has its line. A stored value at
// that scope overrides it.
func TestScopesOfTheFile(t *testing.T) {
	path := storedUntil(t, time.Time{})
	c := parse(t, text+"scopes:\n  listener/nfs:\n    credits: {weight: 3}\n  peer/10.0.0.0/8: {ddp: {min_chunk: 8}, credits: {max: 9}}\n")
	expect(t, table(t, c, path), "inline.send_max 2048 global, revision 1, over 8192 config rdmad.yaml:2", "credits.weight 1 default",
		"credits.weight 3 listener/nfs, config rdmad.yaml:6", "credits.max 9 peer/10.0.0.0/8, config rdmad.yaml:7",
		"ddp.min_chunk 9 peer/10.0.0.0/8, revision 2, over 8 config rdmad.yaml:7")
	r, err := Make(c, path)
	if err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
      "scope": "listener/nfs",
      "key": "credits.weight",
      "value": "3",
      "source": "config",
      "detail": "rdmad.yaml:6",
      "revision": 0,
      "over": ""
    }`
	if !strings.Contains(string(out), want) {
		t.Errorf("no %s in\n%s", want, out)
	}
}

func TestRefusedByState(t *testing.T) {
	path := stored(t)
	if err := os.WriteFile(path, []byte("not a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Make(parse(t, text), path); err == nil || !strings.HasPrefix(err.Error(), path+": damaged") {
		t.Errorf("%v", err)
	}
}

func TestJSON(t *testing.T) {
	r, err := Make(parse(t, text), "nowhere/settings.db")
	if err != nil {
		t.Fatal(err)
	}
	r.Configuration, r.Settings = r.Configuration[:1], r.Settings[:1]
	r.Memory = Memory{Limit: 5, Source: "cgroup", Asked: 7, Warning: "too little"}
	out, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "file": "rdmad.yaml",
  "listeners": 1,
  "services": 1,
  "connectors": 0,
  "memory": {
    "limit": 5,
    "source": "cgroup",
    "asked": 7,
    "warning": "too little"
  },
  "unreachable_limits": [],
  "state": {
    "path": "nowhere/settings.db",
    "read": false,
    "problem": "",
    "revision": 0,
    "pending": 0,
    "deadline": "",
    "waits": false
  },
  "configuration": [
    {
      "key": "control.listen",
      "value": "127.0.0.1:20050",
      "from": "default"
    }
  ],
  "settings": [
    {
      "key": "inline.send_max",
      "value": "8192",
      "source": "config",
      "detail": "rdmad.yaml:2",
      "revision": 0,
      "over": ""
    }
  ],
  "scopes": []
}`
	if string(out) != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
}

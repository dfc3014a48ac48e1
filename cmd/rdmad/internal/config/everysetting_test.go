package config

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/planetest"
	model "github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/settingsproto"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/settings/settingstest"
)

// daemon is a store over connection 1 of listener nfs.
type daemon struct {
	*desired.Store
	plane *planetest.Plane
}

func newDaemon(t *testing.T) *daemon {
	t.Helper()
	plane := &planetest.Plane{}
	plane.Listen("nfs", "127.0.0.1:20049")
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
	defaults := rpcrdma.DefaultSettings()
	store, err := desired.New(plane, slog.New(slog.DiscardHandler), &defaults, nil)
	if err != nil {
		t.Fatal(err)
	}
	plane.Use(store.Resolve)
	return &daemon{store, plane}
}

// inForce are the settings of the connection.
func (d *daemon) inForce(t *testing.T) rpcrdma.Settings {
	t.Helper()
	c, err := d.plane.Connection("1")
	if err != nil {
		t.Fatal(err)
	}
	return *c.Settings
}

// file writes values as a configuration file.
func file(v *live.Values) string {
	groups := make(map[string][]string)
	for name, text := range v.Text() {
		group, leaf, _ := strings.Cut(name, ".")
		groups[group] = append(groups[group], leaf+": "+text)
	}
	out := "settings:\n"
	for group, leaves := range groups {
		out += fmt.Sprintf("  %s: {%s}\n", group, strings.Join(leaves, ", "))
	}
	return out
}

// carried is what becomes of values on their way through the API's JSON.
func carried(t *testing.T, v *live.Values) live.Values {
	t.Helper()
	text, err := protojson.Marshal(settingsproto.Message(v))
	if err != nil {
		t.Fatal(err)
	}
	m := &rdmadv1.Settings{}
	if err := protojson.Unmarshal(text, m); err != nil {
		t.Fatal(err)
	}
	return settingsproto.Values(m)
}

// exported takes all settings out of one daemon and into a new one.
func exported(t *testing.T, from *daemon) *daemon {
	t.Helper()
	d := from.Dump()
	base, err := live.ParseValues(d.Base)
	if err != nil {
		t.Fatal(err)
	}
	base = carried(t, &base)
	d.Base = base.Text()
	for i, scope := range d.Scopes {
		v, err := live.ParseValues(scope.Values)
		if err != nil {
			t.Fatal(err)
		}
		v = carried(t, &v)
		d.Scopes[i].Values = v.Text()
	}
	to := newDaemon(t)
	if _, err := to.Load(&d, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	return to
}

// Every value of every setting is in force the same, whether it comes from the
// file or is set at any scope, here and where it was exported to.
func TestEverySetting(t *testing.T) {
	for k := range live.NumKeys {
		for _, value := range settingstest.Samples(k) {
			t.Run(k.String()+"="+k.Row().Format(value), func(t *testing.T) { everyWay(t, settingstest.With(k, value)) })
		}
	}
}

func everyWay(t *testing.T, v live.Values) {
	wanted := rpcrdma.DefaultSettings()
	all := live.Of(&wanted)
	all.Overlay(&v)
	wanted = *all.Settings()
	check := func(how string, d *daemon) {
		t.Helper()
		if got := d.inForce(t); got != wanted {
			t.Errorf("%s: %v differ: in force %+v, want %+v", how, live.Changed(&got, &wanted), got, wanted)
		}
	}
	c := parse(t, file(&v))
	if got, given := c.Settings.Initial(); got != wanted || len(given) != len(v.Keys().Keys()) {
		t.Errorf("at the start: %+v, given %v", got, given)
	}
	d := newDaemon(t)
	if _, _, err := d.Reload(c.Layer(), desired.Options{}); err != nil {
		t.Fatal(err)
	}
	check("file", d)
	check("file, exported", exported(t, d))
	for _, scope := range []string{"global", "listener/nfs", "peer/192.0.2.0/24", "connection/1"} {
		s, err := model.ParseScope(scope)
		if err != nil {
			t.Fatal(err)
		}
		d := newDaemon(t)
		if _, err := d.Set(model.Change{Scope: s, Set: carried(t, &v)}, desired.Options{}); err != nil {
			t.Fatal(err)
		}
		check(scope, d)
		if s.Kind != model.Connection {
			check(scope+", exported", exported(t, d))
		}
	}
}

package config

import (
	"log/slog"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/rdmad/rdmad/controlplane/configfile"
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
	store, err := desired.New(plane, slog.New(slog.DiscardHandler), new(rpcrdma.DefaultSettings()), 0)
	if err != nil {
		t.Fatal(err)
	}
	plane.Use(store.Resolve)
	return &daemon{store, plane}
}

// inForce returns the settings of the connection.
func (d *daemon) inForce(t *testing.T) rpcrdma.Settings {
	t.Helper()
	c, err := d.plane.Connection("1")
	if err != nil {
		t.Fatal(err)
	}
	return *c.Settings
}

// file writes values as a configuration file, at a scope.
func file(t *testing.T, scope model.Scope, v live.Values, format string) *Config {
	t.Helper()
	c := configfile.Contents{Values: v}
	if scope != (model.Scope{}) {
		c = configfile.Contents{Scopes: map[model.Scope]live.Values{scope: v}}
	}
	return written(t, &c, format)
}

// written is a configuration file that has only live settings.
func written(t *testing.T, c *configfile.Contents, format string) *Config {
	t.Helper()
	text, err := c.Write(format)
	if err != nil {
		t.Fatal(err)
	}
	out, err := Parse("rdmad."+format, text, options)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
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

// contents are the settings of a daemon, as an export has them.
func contents(t *testing.T, d *daemon) *configfile.Contents {
	t.Helper()
	dump := d.Dump()
	c := &configfile.Contents{Values: dump.Base, Scopes: make(map[model.Scope]live.Values)}
	for _, one := range dump.Scopes {
		if v := carried(t, &one.Values); one.Scope == (model.Scope{}) {
			c.Values.Overlay(&v)
		} else {
			c.Scopes[one.Scope] = v
		}
	}
	return c
}

// exported takes all settings out of one daemon, as a file, which is the configuration
// of a new one.
func exported(t *testing.T, from *daemon, format string) *daemon {
	t.Helper()
	to := newDaemon(t)
	if _, _, err := to.Reload(written(t, contents(t, from), format).Layer()); err != nil {
		t.Fatal(err)
	}
	return to
}

// Every value of every setting has the same effect, whether the file gives it or it is set, at
// any scope, in this daemon and in one to which it was exported.
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
	for _, format := range []string{configfile.YAML, configfile.TOML, configfile.JSON} {
		c := file(t, model.Scope{}, v, format)
		if got, given := c.Settings.Initial(); got != wanted || given != v.Keys() {
			t.Errorf("at the start: %+v, given %v", got, given)
		}
		for _, name := range []string{"global", "listener/nfs", "peer/192.0.2.0/24", "connection/1"} {
			scope, err := model.ParseScope(name)
			if err != nil {
				t.Fatal(err)
			}
			d := newDaemon(t)
			if _, err := d.Set(model.Change{Scope: scope, Set: carried(t, &v)}, desired.Options{}); err != nil {
				t.Fatal(err)
			}
			check(name, d)
			if scope.Kind == model.Connection {
				continue // a file has none
			}
			check(name+", exported", exported(t, d, format))
			d = newDaemon(t)
			if _, _, err := d.Reload(file(t, scope, v, format).Layer()); err != nil {
				t.Fatal(err)
			}
			check(name+" of the file", d)
			check(name+" of the file, exported", exported(t, d, format))
		}
	}
}

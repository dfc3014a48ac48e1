package cli

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/settings/settingstest"
)

// tuned is a control plane over connection 1 of listener nfs.
type tuned struct {
	*controlplane.Controlplane
	plane *planetest.Plane
}

func newTuned(t *testing.T) *tuned {
	t.Helper()
	d := &tuned{plane: &planetest.Plane{}}
	d.plane.Listen("nfs", "127.0.0.1:20049")
	var err error
	d.Controlplane, err = controlplane.New(t.Context(), controlplane.Config{
		Dataplane: d.plane, Listen: "127.0.0.1:0", Initial: rpcrdma.DefaultSettings(), Logger: slog.New(slog.DiscardHandler),
		Access: controlplane.Access{Rate: auth.Rate{PerSecond: 1e6, Burst: 1e6}},
	})
	if err != nil {
		t.Fatal(err)
	}
	d.plane.Use(d.Settings.Resolve)
	d.plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
	served := make(chan error, 1)
	go func() { served <- d.Serve() }()
	t.Cleanup(func() {
		if err := d.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d *tuned) run(t *testing.T, args ...string) {
	t.Helper()
	change(t, append(args, "--addr", d.Addr())...)
}

// holds says that the connection has settings in force.
func (d *tuned) holds(t *testing.T, how string, wanted *rpcrdma.Settings) {
	t.Helper()
	c, err := d.plane.Connection("1")
	if err != nil {
		t.Fatal(err)
	}
	if *c.Settings != *wanted {
		t.Errorf("%s: %v differ: in force %+v, want %+v", how, live.Changed(c.Settings, wanted), *c.Settings, *wanted)
	}
}

// TestEverySettingByCommand: every value of every setting, set at any scope, exported
// and imported elsewhere or given as the configuration file there, is in force the same.
func TestEverySettingByCommand(t *testing.T) {
	from, to, byFile := newTuned(t), newTuned(t), newTuned(t)
	formats, n := []string{configfile.YAML, configfile.TOML, configfile.JSON}, 0
	file := filepath.Join(t.TempDir(), "tuned.")
	for k := range live.NumKeys {
		for _, value := range settingstest.Samples(k) {
			v, wanted := settingstest.With(k, value), rpcrdma.DefaultSettings()
			all := live.Of(&wanted)
			all.Overlay(&v)
			wanted = *all.Settings()
			for _, scope := range []string{"global", "listener/nfs", "peer/192.0.2.0/24", "connection/1"} {
				how := k.String() + "=" + k.Row().Format(value) + " at " + scope
				set, unset := []string{"settings", "set", "--scope", scope}, []string{"settings", "set", "--scope", scope}
				for _, name := range slices.Sorted(maps.Keys(v.Text())) {
					set, unset = append(set, name+"="+v.Text()[name]), append(unset, name+"=unset")
				}
				from.run(t, set...)
				from.holds(t, how, &wanted)
				if scope != "connection/1" {
					name := file + formats[n%len(formats)]
					n++
					from.run(t, "settings", "export", name)
					to.run(t, "settings", "import", name)
					to.holds(t, how+", imported from "+name, &wanted)
					byFile.reload(t, name)
					byFile.holds(t, how+", given by "+name, &wanted)
				}
				from.run(t, unset...)
			}
		}
	}
}

// reload gives a file that has only live settings as the configuration file.
func (d *tuned) reload(t *testing.T, name string) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	c, err := configfile.Read(name, text)
	if err != nil {
		t.Fatal(err)
	}
	f := settings.FileLayer{Name: name, Values: c.Values, Scopes: make(map[settings.Scope]settings.FileValues)}
	for scope, v := range c.Scopes {
		f.Scopes[scope] = settings.FileValues{Values: v}
	}
	if _, _, err := d.Settings.Reload(f); err != nil {
		t.Fatal(err)
	}
}

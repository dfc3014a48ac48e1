package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/settings/settingstest"
)

// tester is *testing.T or *rapid.T.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// exportedIn returns the export of a daemon in a format, and what it leaves out.
func exportedIn(t tester, d *daemon, format rdmadv1.ExportConfigurationRequest_Format) (text string, left []string) {
	t.Helper()
	conn := have(grpc.NewClient(d.control.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	res := have(rdmadv1.NewConfigurationServiceClient(conn).ExportConfiguration(context.Background(), &rdmadv1.ExportConfigurationRequest{Format: format}))(t)
	return res.GetText(), res.GetLeftOut()
}

// parsed checks a file as rdmad check --offline does. The flags give what an export does not
// have.
func parsed(t tester, file, text, state string) *config.Config {
	t.Helper()
	c, err := config.Parse(file, []byte(text), config.Options{
		Providers: []string{"softiwarp"},
		Set:       []string{"control.listen=127.0.0.1:0", "metrics.listen=", "state.path=" + state},
	})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	if len(c.Connectors) == 0 {
		c.Connectors = nil
	}
	if len(c.Listeners) == 0 {
		c.Listeners = nil
	}
	return c
}

// bound runs a daemon of a configuration.
func bound(t tester, c *config.Config) *daemon {
	t.Helper()
	d, err := bind(context.Background(), c, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		d.close()
		t.Fatal(err)
	}
	d.start()
	return d
}

// drawn gives fields values that are in range, or none. Its caller gives those that name
// something.
func drawn(t *rapid.T, to any) {
	root := reflect.ValueOf(to)
	for f := range spec.Fields(root.Type().Elem()) {
		v := f.In(root, false)
		if !v.IsValid() || f.Section() || !rapid.Bool().Draw(t, f.Path) {
			continue
		}
		low, high := f.Range()
		switch x := v.Addr().Interface().(type) {
		case *string:
			if all := f.Values(); all != nil {
				*x = rapid.SampledFrom(all).Draw(t, f.Path)
			}
		case *bool:
			*x = f.Path != "rpcbind" && !strings.HasSuffix(f.Path, "require_mountpoint")
		case *[]netip.Prefix:
			*x = rapid.SliceOfNDistinct(rapid.SampledFrom([]netip.Prefix{
				netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("192.0.2.7/32"), netip.MustParsePrefix("2001:db8::/32"),
			}), 1, 2, rapid.ID).Draw(t, f.Path)
		case *[]spec.ExportClient:
			*x = make([]spec.ExportClient, 1)
			drawn(t, &(*x)[0])
			(*x)[0].Networks = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}
		default:
			least, err := spec.Parse(f.Type, low)
			most, wrong := spec.Parse(f.Type, high)
			if f.Items() || err != nil || wrong != nil {
				continue
			}
			more := int64(rapid.IntRange(0, 90).Draw(t, f.Path))
			switch {
			case f.Type == reflect.TypeFor[time.Duration]():
				more *= int64(time.Second)
			case strings.HasSuffix(f.Path, "memory"):
				more = (256 + more) << 20
			case strings.HasSuffix(f.Path, "connections"), strings.HasSuffix(f.Path, "per_peer"):
				more += 100
			}
			if f.Path == "control.idle" { // rdmad must not end the test's connection
				more += int64(time.Hour)
			}
			v.SetInt(min(least.Int()+more, most.Int()))
		}
	}
}

// directories makes paths that a format could take for something else.
type directories struct {
	t   *rapid.T
	dir string
	n   int
}

func (d *directories) next() string {
	d.n++
	name := rapid.SampledFrom([]string{"plain", "on", "a b", "'x': #y", "ä\"\\", "12", "a\nb"}).Draw(d.t, "directory")
	path := filepath.Join(d.dir, fmt.Sprint(d.n), name)
	must(d.t, os.MkdirAll(path, 0o755))
	return path
}

// oddNames are names that YAML could take for something else.
var oddNames = []string{"a", "on", "no", "null", "0x10", "1e3", "12", "true", "B-2.c"}

// drawnAll draws services, listeners and connectors that this machine can serve.
func drawnAll(t *rapid.T, dir string) (all spec.All) {
	dirs := &directories{t: t, dir: dir}
	distinct := func(least int, what string) []string {
		return rapid.SliceOfNDistinct(rapid.SampledFrom(oddNames), least, 3, rapid.ID).Draw(t, what)
	}
	for _, name := range distinct(1, "services") {
		s := spec.Service{Name: name}
		switch rapid.SampledFrom([]string{"nfs", "echo", "forward"}).Draw(t, "kind") {
		case "echo":
			s.Echo = &spec.Echo{}
		case "forward":
			s.Forward = &spec.Forward{}
			drawn(t, s.Forward)
			s.Forward.Address = "127.0.0.1:1"
		default:
			s.NFS = &spec.NFS{}
			drawn(t, s.NFS)
			s.NFS.Path = dirs.next()
			s.NFS.TCPListen = rapid.SampledFrom([]string{"", "127.0.0.1:0"}).Draw(t, "tcp_listen")
			for range rapid.IntRange(0, 2).Draw(t, "exports") {
				var e spec.Export
				drawn(t, &e)
				e.Path = dirs.next()
				s.NFS.Exports = append(s.NFS.Exports, e)
			}
		}
		all.Services = append(all.Services, s)
	}
	taken := distinct(0, "listeners")
	for _, name := range taken {
		var l spec.Listener
		drawn(t, &l)
		l.Name, l.Provider, l.Address = name, "softiwarp", "127.0.0.1:0"
		l.Service = rapid.SampledFrom(all.Services).Draw(t, "service").Name
		all.Listeners = append(all.Listeners, l)
	}
	for _, name := range distinct(0, "connectors") {
		if slices.Contains(taken, name) {
			continue
		}
		var c spec.Connector
		drawn(t, &c)
		c.Name, c.Provider, c.Listen, c.Target = name, "softiwarp", "127.0.0.1:0", "127.0.0.1:1"
		all.Connectors = append(all.Connectors, c)
	}
	return all
}

// drawnSettings draws settings of the global scope, of a network, and of each listener.
func drawnSettings(t *rapid.T, all *spec.All) *configfile.Contents {
	scopes := []string{"peer/192.0.2.0/24", "peer/2001:db8::/32"}
	for i := range all.Listeners {
		scopes = append(scopes, "listener/"+all.Listeners[i].Name)
	}
	one := func(what string) live.Values {
		k := live.Key(rapid.IntRange(0, int(live.NumKeys)-1).Draw(t, what))
		return settingstest.With(k, rapid.SampledFrom(settingstest.Samples(k)).Draw(t, k.String()))
	}
	c := &configfile.Contents{Values: one("global"), Scopes: make(map[settings.Scope]live.Values)}
	for _, name := range scopes {
		scope := have(settings.FileScope(name))(t)
		if rapid.Bool().Draw(t, name) {
			c.Scopes[scope] = one(name)
		}
	}
	excludeEachOther(t, c)
	return c
}

// excludeEachOther skips settings that no daemon can have together.
func excludeEachOther(t *rapid.T, c *configfile.Contents) {
	f := settings.FileLayer{Values: c.Values, Scopes: make(map[settings.Scope]settings.FileValues)}
	for scope, v := range c.Scopes {
		f.Scopes[scope] = settings.FileValues{Values: v}
	}
	state := have(settings.NewState(live.Of(new(live.Default())), 0))(t)
	if _, err := state.WithFile(f); err != nil {
		t.Skip(err)
	}
}

// byName sorts as an export does.
func byName(all spec.All) spec.All {
	slices.SortFunc(all.Services, func(a, b spec.Service) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(all.Listeners, func(a, b spec.Listener) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(all.Connectors, func(a, b spec.Connector) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// TestExportServesTheSame: what a daemon of any file exports, in any format, is a file with
// the same specifications, limits and settings. A daemon of it exports the same text.
func TestExportServesTheSame(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		here := filepath.Join(dir, fmt.Sprint(n))
		all := drawnAll(t, filepath.Join(here, "srv"))
		var limits spec.Limits
		drawn(t, &limits)
		limits.Metrics.Reserved = 0
		limits.Control.Reserved = min(limits.Control.Reserved, 10)
		want := drawnSettings(t, &all)
		text := have(want.WriteAll(configfile.YAML, &all, &limits))(t)
		c := parsed(t, "f.yaml", string(text), filepath.Join(here, "state"))
		if !reflect.DeepEqual(c.All, all) || c.Limits != limits {
			t.Fatalf("%+v %+v, want %+v %+v, in\n%s", c.All, c.Limits, all, limits, text)
		}
		initial, _ := c.Settings.Initial()
		d := bound(t, c)
		defer d.stop(time.Minute)
		exports := make(map[string]string)
		for i, format := range []string{configfile.YAML, configfile.TOML, configfile.JSON} {
			again, left := exportedIn(t, d, rdmadv1.ExportConfigurationRequest_Format(i+1))
			if len(left) > 0 {
				t.Fatalf("left out: %q", left)
			}
			exports[format] = again
			c := parsed(t, "g."+format, again, filepath.Join(here, format))
			got, _ := c.Settings.Initial()
			if !reflect.DeepEqual(c.All, byName(all)) || c.Limits != limits || got != initial || !maps.Equal(c.Scopes, want.Scopes) {
				t.Fatalf("%s: got %+v %+v, want %+v %+v\nof\n%s\nexported as\n%s", format, c.All, c.Limits, all, limits, text, again)
			}
		}
		format := rapid.SampledFrom([]string{configfile.YAML, configfile.TOML, configfile.JSON}).Draw(t, "format")
		second := bound(t, parsed(t, "g."+format, exports[format], filepath.Join(here, format)))
		defer second.stop(time.Minute)
		if again, _ := exportedIn(t, second, rdmadv1.ExportConfigurationRequest_YAML); again != exports[configfile.YAML] {
			t.Fatalf("another rdmad exports\n%s\nnot\n%s", again, exports[configfile.YAML])
		}
	})
}

// TestExportHasWhatOperatorsChanged: an export has additions, changes of the file's elements
// and limits, and settings. It has nothing that was removed or failed, and no settings of it.
func TestExportHasWhatOperatorsChanged(t *testing.T) {
	r := startHere(t, t.TempDir(), `  - {name: second, provider: softiwarp, address: "127.0.0.1:0", service: test}
  - {name: third, provider: softiwarp, address: "127.0.0.1:0", service: test}
scopes: {listener/third: {credits: {weight: 3}}, listener/second: {credits: {weight: 5}}}
limits: {connections: 9, handshakes: 7}
`)
	defer r.end()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := r.manager.Listeners.Add(ctx, spec.Listener{Name: "fourth", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "test"})
	must(nil, err)
	_, _, err = r.manager.Listeners.Update(ctx, "second", func(l *spec.Listener) { l.Limits.Idle = time.Hour }, manager.UpdateOptions{})
	must(nil, err)
	must(r.manager.Listeners.Remove(ctx, "third", 0))
	_, _, err = r.manager.Limits.Set(ctx, func(l *spec.Limits) { l.Connections = 0; l.TCPConnections = 8 }, nil)
	must(nil, err)
	c := parsed(t, "g.yaml", exportOf(t, r.daemon, "settings of listener/third: there is no such listener or connector in service"), t.TempDir())
	bound := r.listener("fourth").Live.Address.String()
	if want := []spec.Listener{
		{Name: "fourth", Provider: "softiwarp", Address: bound, Service: "test"},
		{Name: "second", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "test", Limits: dataplane.Limits{Idle: time.Hour}},
		{Name: "steady", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "test"},
	}; !reflect.DeepEqual(c.Listeners, want) {
		t.Errorf("listeners %+v, want %+v", c.Listeners, want)
	}
	if want := (spec.Limits{Limits: dataplane.Limits{Handshakes: 7}, TCPConnections: 8}); c.Limits != want {
		t.Errorf("limits %+v, want %+v", c.Limits, want)
	}
	if _, ok := c.Scopes[settings.Scope{Kind: settings.Listener, Name: "second"}]; !ok || len(c.Scopes) != 1 {
		t.Errorf("scopes %+v", c.Scopes)
	}
}

// TestExportLeavesOutWhatFailed: an addition without its directory is not in an export, nor is
// its listener.
func TestExportLeavesOutWhatFailed(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, "")
	r.addDisk()
	r.end()
	must(t, os.Rename(filepath.Join(dir, "disk"), filepath.Join(dir, "away")))
	r = startHere(t, dir, "")
	defer r.end()
	text, left := exportedIn(t, r.daemon, rdmadv1.ExportConfigurationRequest_YAML)
	if len(left) != 2 || !strings.HasPrefix(left[0], "service disk: ") || !strings.HasPrefix(left[1], "listener disk: ") {
		t.Errorf("left out %q", left)
	}
	c := parsed(t, "g.yaml", text, t.TempDir())
	if len(c.Services) != 1 || len(c.Listeners) != 1 || c.Listeners[0].Name != "steady" {
		t.Errorf("%+v", c.All)
	}
}

// TestNothingToExport: a daemon that serves nothing exports nothing, because a file with
// nothing in it stands for the default listener.
func TestNothingToExport(t *testing.T) {
	r := startHere(t, t.TempDir(), "")
	defer r.end()
	if _, err := r.manager.Listeners.Remove(t.Context(), "steady", 0); err != nil {
		t.Fatal(err)
	}
	must(t, r.removeService("test"))
	conn, err := grpc.NewClient(r.control.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = rdmadv1.NewConfigurationServiceClient(conn).ExportConfiguration(t.Context(), &rdmadv1.ExportConfigurationRequest{})
	if status.Code(err) != codes.FailedPrecondition {
		t.Error(err)
	}
}

// exportOf returns an export that leaves out these things.
func exportOf(t *testing.T, d *daemon, left ...string) string {
	t.Helper()
	text, got := exportedIn(t, d, rdmadv1.ExportConfigurationRequest_FORMAT_UNSPECIFIED)
	if !slices.Equal(got, left) {
		t.Errorf("left out %q, want %q", got, left)
	}
	return text
}

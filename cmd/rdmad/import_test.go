package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// importedInto asks a daemon to import a file.
func importedInto(t tester, d *daemon, file, text string, dryRun bool) (*rdmadv1.ImportConfigurationResponse, error) {
	t.Helper()
	conn := have(grpc.NewClient(d.control.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	defer conn.Close()
	return rdmadv1.NewConfigurationServiceClient(conn).ImportConfiguration(context.Background(),
		&rdmadv1.ImportConfigurationRequest{Text: text, File: file, DryRun: dryRun})
}

// textOf is the export of a daemon in YAML.
func textOf(t tester, d *daemon) string {
	t.Helper()
	text, _ := exportedIn(t, d, rdmadv1.ExportConfigurationRequest_YAML)
	return text
}

// lines are the reasons for which an import was refused, with this code.
func lines(t *testing.T, code codes.Code, err error) (out []string) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != code {
		t.Fatalf("%v, want %v", err, code)
	}
	for _, d := range st.Details() {
		bad, _ := d.(*errdetails.BadRequest)
		for _, v := range bad.GetFieldViolations() {
			out = append(out, v.GetDescription())
		}
	}
	return out
}

// changesIn are the elements that an import changed.
func changesIn(res *rdmadv1.ImportConfigurationResponse) (out []string) {
	for _, e := range res.GetElements() {
		line := e.GetAction().String() + " " + e.GetKind() + " " + e.GetName()
		for _, f := range e.GetFields() {
			line += " " + f.GetField() + "=" + f.GetBefore() + "→" + f.GetAfter()
		}
		out = append(out, line)
	}
	return out
}

// TestImportServesTheSame: what a daemon of any file exports, in any format, makes another daemon
// that imports it export the same text, also after a restart. Imported again, it changes nothing.
func TestImportServesTheSame(t *testing.T) {
	dir, n := t.TempDir(), 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		here := filepath.Join(dir, fmt.Sprint(n))
		all := drawnAll(rt, filepath.Join(here, "srv"))
		var limits spec.Limits
		drawn(rt, &limits)
		limits.Metrics.Reserved = 0
		limits.Control.Reserved = min(limits.Control.Reserved, 10)
		file, err := drawnSettings(rt, &all).WriteAll(configfile.YAML, &all, &limits)
		if err != nil {
			rt.Fatal(err)
		}
		format := rapid.SampledFrom([]string{configfile.YAML, configfile.TOML, configfile.JSON}).Draw(rt, "format")
		first := bound(rt, parsed(rt, "f.yaml", string(file), filepath.Join(here, "first")))
		want := textOf(rt, first)
		text, _ := exportedIn(rt, first, rdmadv1.ExportConfigurationRequest_Format(rdmadv1.ExportConfigurationRequest_Format_value[strings.ToUpper(format)]))
		first.stop(time.Minute)

		// The second has elements of the same names.
		own := drawnAll(rt, filepath.Join(here, "own"))
		had, err := (&configfile.Contents{}).WriteAll(configfile.YAML, &own, &spec.Limits{Memory: 300 << 20})
		if err != nil {
			rt.Fatal(err)
		}
		config := parsed(rt, "g.yaml", string(had), filepath.Join(here, "second"))
		for round := range 3 {
			second := bound(rt, config)
			before := second.manager.Listeners.List()
			if round < 2 {
				res, err := importedInto(rt, second, "x."+format, text, false)
				if err != nil {
					rt.Fatalf("round %d: %v importing\n%s\ninto\n%s", round, err, text, had)
				}
				if round == 1 && !res.GetUnchanged() {
					rt.Fatalf("round %d: %v importing\n%s\ninto\n%s\n%+v", round, res, text, had, before)
				}
			}
			got := textOf(rt, second)
			second.stop(time.Minute)
			if got != want {
				rt.Fatalf("round %d: export of\n%s\nafter an import into\n%s\nis\n%s", round, want, had, got)
			}
		}
	})
}

// more is what the tests below have beside listener steady and service test.
const more = `  - {name: second, provider: softiwarp, address: "127.0.0.1:0", service: test, limits: {idle: 1h}}
connectors:
  - {name: out, listen: "127.0.0.1:0", provider: softiwarp, target: "192.0.2.7:20049"}
scopes: {listener/second: {credits: {weight: 5}}}
limits: {connections: 9, handshakes: 7}
settings: {credits: {max: 32}}
`

// TestImportChanges: an import says what it changes, a dry run first. Sections that the file does
// not have are left alone. The daemon's own file is in force again after its import.
func TestImportChanges(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, more)
	defer func() { r.end() }()
	own := string(ownFile(t, dir))
	before := textOf(t, r.daemon)
	_, err := r.manager.Listeners.Add(t.Context(), spec.Listener{Name: "third", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "test"})
	if err != nil {
		t.Fatal(err)
	}
	text := `listeners:
  - {name: second, provider: softiwarp, address: "127.0.0.1:0", service: test, limits: {connections: 3}}
  - {name: fourth, provider: softiwarp, address: "127.0.0.1:0", service: test}
limits: {connections: 9, tcp_idle: 90s}
settings: {credits: {max: 32, weight: 2}}
`
	with := textOf(t, r.daemon)
	want := []string{
		"ADDED listener fourth", "CHANGED listener second limits.connections=→3 limits.idle=1h→", "REMOVED listener steady", "REMOVED listener third",
		"CHANGED limits  handshakes=7→ tcp_idle=→1m30s",
	}
	res, err := importedInto(t, r.daemon, "new.yaml", text, true)
	if err != nil || !slices.Equal(changesIn(res), want) || len(res.GetSettings()) != 1 || res.GetSettings()[0].GetAfter() != "2" {
		t.Fatalf("dry run: %v, %v", res, err)
	}
	if got := textOf(t, r.daemon); got != with {
		t.Fatalf("a dry run changed\n%s\nto\n%s", with, got)
	}
	res, err = importedInto(t, r.daemon, "new.yaml", text, false)
	if err != nil || !slices.Equal(changesIn(res), want) {
		t.Fatalf("%v, %v", res, err)
	}
	after := textOf(t, r.daemon)
	c := parsed(t, "g.yaml", after, t.TempDir())
	if got := c.Names("listeners"); !slices.Equal(got, []string{"fourth", "second"}) {
		t.Errorf("listeners %v", got)
	}
	if len(c.Connectors) != 1 || len(c.Scopes) != 1 || c.Limits.TCPIdle != 90*time.Second || c.Limits.Handshakes != 0 || c.Limits.Connections != 9 {
		t.Errorf("%+v", c)
	}
	if l := r.data.Limits(); l.Connections != 9 || l.Handshakes == 7 {
		t.Errorf("limits %+v", l)
	}
	r.end()
	r = startHere(t, dir, more)
	if got := textOf(t, r.daemon); got != after {
		t.Errorf("after a restart\n%s\nnot\n%s", got, after)
	}
	// The import removed an element of the file. A later version of the file does not bring it
	// back, but its other changes come into force.
	must(t, reconfigure(r.daemon, r.parse(strings.Replace(more, "idle: 1h", "idle: 2h, connections_per_peer: 5", 1)), time.Second))
	l := r.listener("second")
	if l.Spec.Limits.ConnectionsPerPeer != 5 || l.Spec.Limits.Idle != 0 || len(r.manager.Listeners.List()) != 2 {
		t.Errorf("after a reload: %+v, %+v", l.Spec, r.manager.Listeners.List())
	}
	must(t, reconfigure(r.daemon, r.parse(more), time.Second))
	if _, err := importedInto(t, r.daemon, "rdmad.yaml", own, false); err != nil {
		t.Fatal(err)
	}
	if got := textOf(t, r.daemon); got != before {
		t.Errorf("after its own file\n%s\nnot\n%s", got, before)
	}
	for _, l := range r.manager.Listeners.List() {
		if l.Origin != manager.FromFile || len(l.Changed) > 0 {
			t.Errorf("%+v", l)
		}
	}
	if _, changed := r.manager.Limits.Get(); len(changed) > 0 {
		t.Errorf("limits still changed: %v", changed)
	}
}

// ownFile is the configuration file of startHere.
func ownFile(t *testing.T, dir string) []byte {
	t.Helper()
	return []byte(`control: {listen: "127.0.0.1:0"}
metrics: {listen: ""}
state: {path: ` + filepath.Join(dir, "state") + `}
services:
  - {name: test, echo: {}}
listeners:
  - {name: steady, provider: softiwarp, address: "127.0.0.1:0", service: test}
` + more)
}

// TestImportRefused: all mistakes come at once, each with its line, and nothing changes.
func TestImportRefused(t *testing.T) {
	dir := t.TempDir()
	r := startHere(t, dir, more)
	defer r.end()
	taken := have(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	before := textOf(t, r.daemon)
	for _, c := range []struct {
		name, text string
		code       codes.Code
		want       []string
	}{
		{"mistakes", `control: {listen: "127.0.0.1:20050"}
metrics: {listen: ""}
slow_call: 5s
listeners:
  - {name: steady, provider: softiwarp, address: "127.0.0.1:0", service: none}
  - {name: odd, provider: magic, address: "127.0.0.1:0", service: test, limits: {idle: 1}}
settings: {credits: {max: 0}}
scopes: {listener/other: {credits: {weight: 3}}}
colour: blue
`, codes.InvalidArgument, []string{
			"x.yaml:1: control.listen: an import does not change control, which belongs to this machine; it is 127.0.0.1:0 here. ",
			"x.yaml:3: slow_call: an import does not change slow_call, which belongs to this machine; it is not set here. ",
			`x.yaml:5: listeners[0].service: there is no service "none"`,
			`x.yaml:6: listeners[1].limits.idle: must be a time`,
			`x.yaml:6: listeners[1].provider: "magic" is not in this build`,
			"x.yaml:7: settings.credits.max: must be between",
			`x.yaml:8: scopes.listener/other: there is no listener or connector "other"`,
			"x.yaml:9: colour: unknown key; known here: ",
		}},
		{"left alone", "services: [{name: other, echo: {}}]\n", codes.InvalidArgument, []string{
			`x.yaml: listener second.service: there is no service "test"; it stays, because the file has no section listeners`,
			`x.yaml: listener steady.service: there is no service "test"; it stays, because the file has no section listeners`,
		}},
		{"nothing", "metrics: {listen: \"\"}\nlisteners:\n", codes.InvalidArgument, []string{"x.yaml: nothing to import: services, listeners, connectors, limits, settings, scopes are missing or empty"}},
		{"not YAML", "listeners: [\n", codes.InvalidArgument, []string{"x.yaml:"}},
		{"together", "listeners: []\nconnectors: []\nscopes:\n  peer/10.0.0.0/8:\n    credits: {min: 33}\n", codes.InvalidArgument, []string{
			"x.yaml:5: scopes.peer/10.0.0.0/8.credits.min: credits.min 33 ",
		}},
		{"outside", fmt.Sprintf(`services:
  - {name: test, echo: {}}
  - {name: disk, nfs: {path: %s}}
listeners:
  - {name: steady, provider: softiwarp, address: %q, service: test}
  - {name: new, provider: softiwarp, address: "127.0.0.1:0", service: test}
limits: {connections: 5}
settings: {credits: {max: 5}}
`, filepath.Join(dir, "none"), taken.Addr()), codes.FailedPrecondition, []string{
			"x.yaml:3: services[1].nfs.path: " + filepath.Join(dir, "none") + " does not exist",
			"x.yaml:5: listeners[0].address: address " + taken.Addr().String() + " is in use",
		}},
		{"relative", "services: [{name: test, echo: {}}, {name: disk, nfs: {path: here}}]\n", codes.InvalidArgument, []string{
			`x.yaml:1: services[1].nfs.path: "here" must begin with /`,
		}},
		{"address", "limits: {connections: 5}\nservices: [{name: test, echo: {}}, {name: disk, forward: {address: nowhere}}]\n", codes.InvalidArgument, []string{
			`x.yaml:2: services[1].forward.address: `,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, dry := range []bool{true, false} {
				_, err := importedInto(t, r.daemon, "x.yaml", c.text, dry)
				got := lines(t, c.code, err)
				if !slices.EqualFunc(got, c.want, strings.HasPrefix) {
					t.Errorf("got %q\nwant %q", got, c.want)
				}
			}
			if got := textOf(t, r.daemon); got != before {
				t.Errorf("changed to\n%s", got)
			}
		})
	}
}

// TestImportAtCrashes: wherever rdmad ends during an import, all of it is in force after the
// next start, or nothing.
func TestImportAtCrashes(t *testing.T) {
	dir := t.TempDir()
	state := filepath.Join(dir, "state")
	r := startHere(t, dir, more)
	if _, err := r.manager.Listeners.Add(t.Context(), spec.Listener{Name: "third", Provider: "softiwarp", Address: "127.0.0.1:0", Service: "test"}); err != nil {
		t.Fatal(err)
	}
	before := textOf(t, r.daemon)
	text := `services: [{name: test, echo: {}}, {name: up, forward: {address: "192.0.2.9:2049"}}]
listeners: [{name: third, provider: softiwarp, address: "127.0.0.1:0", service: up}]
connectors: []
limits: {connections: 11}
settings: {credits: {max: 16}}
scopes: {listener/third: {credits: {weight: 9}}}
`
	// settings.db can't be replaced: nothing changes.
	blocked := filepath.Join(state, ".settings.db.spare")
	os.Remove(blocked)
	mkdirFull(t, blocked)
	if _, err := importedInto(t, r.daemon, "x.yaml", text, false); status.Code(err) != codes.Internal {
		t.Fatalf("without a place for settings.db: %v", err)
	}
	if got := textOf(t, r.daemon); got != before {
		t.Fatalf("not stored, and changed to\n%s", got)
	}
	if r.data.Limits().Connections != 9 {
		t.Errorf("limits %+v", r.data.Limits())
	}
	must(t, os.RemoveAll(blocked))
	// listeners.json can't be replaced: the import is in settings.db alone.
	old := have(os.ReadFile(filepath.Join(state, "listeners.json")))(t)
	os.Remove(filepath.Join(state, "listeners.json"))
	mkdirFull(t, filepath.Join(state, "listeners.json"))
	if _, err := importedInto(t, r.daemon, "x.yaml", text, false); err != nil {
		t.Fatal(err)
	}
	after := textOf(t, r.daemon)
	r.end()
	must(t, os.RemoveAll(filepath.Join(state, "listeners.json")))
	first := have(os.ReadFile(filepath.Join(state, "settings.db")))(t)
	must(t, os.WriteFile(filepath.Join(state, "listeners.json"), old, 0o600))
	if p := stateIn(state).check().problem(); p != nil {
		t.Errorf("state check: %v", p)
	}
	r = startHere(t, dir, more)
	if got := textOf(t, r.daemon); got != after {
		t.Errorf("ended after settings.db was stored: after the start\n%s\nnot\n%s", got, after)
	}
	if r.control.Settings.Elements() != nil {
		t.Error("settings.db still has the import")
	}
	r.end()
	// Both are stored, and settings.db still has the import. A later change wins over it.
	must(t, os.WriteFile(filepath.Join(state, "settings.db"), first, 0o600))
	r = startHere(t, dir, more)
	if got := textOf(t, r.daemon); got != after {
		t.Errorf("ended after listeners.json was stored: after the start\n%s\nnot\n%s", got, after)
	}
	if _, err := r.manager.Listeners.Remove(t.Context(), "third", 0); err != nil {
		t.Fatal(err)
	}
	r.end()
	must(t, os.WriteFile(filepath.Join(state, "settings.db"), first, 0o600))
	r = startHere(t, dir, more)
	defer r.end()
	if all := r.manager.Listeners.List(); len(all) != 0 {
		t.Errorf("the import is back over a later removal: %+v", all)
	}
}

func stateIn(path string) *state { return &state{path: path} }

// mkdirFull makes a directory that can't be replaced by a file.
func mkdirFull(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Join(path, "full"), 0o700))
}

// numbered is a file of which every part has a number.
func numbered(n int) string {
	return fmt.Sprintf(`services: [{name: s%[1]d, echo: {}}, {name: test, forward: {address: "192.0.2.9:%[1]d"}}]
listeners: [{name: steady, provider: softiwarp, address: "127.0.0.1:0", service: s%[1]d, limits: {connections: %[1]d}}]
connectors: []
limits: {connections: %[1]d}
settings: {credits: {max: %[1]d}}
scopes: {listener/steady: {credits: {weight: %[1]d}}}
`, n)
}

// TestImportKilled: an import that was answered is there after rdmad was killed at any moment,
// and of one that was not answered everything or nothing.
func TestImportKilled(t *testing.T) {
	program, err := exec.LookPath("rdmad") // put there by testscript
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rdmad.yaml"), []byte(`control: {listen: "127.0.0.1:0"}
metrics: {listen: ""}
services: [{name: test, echo: {}}]
listeners: [{name: steady, provider: softiwarp, address: "127.0.0.1:0", service: test}]
`), 0o600); err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(16, 2))
	answered := 2
	for round := range 8 {
		p, err := startProcess(program, dir, []string{"--config", "rdmad.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		conn, err := grpc.NewClient(p.addresses["control"], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		service := rdmadv1.NewConfigurationServiceClient(conn)
		if round > 0 {
			res, err := service.ExportConfiguration(t.Context(), &rdmadv1.ExportConfigurationRequest{})
			if err != nil {
				t.Fatal(err)
			}
			c := parsed(t, "x.yaml", res.GetText(), t.TempDir())
			n := c.Limits.Connections
			if n != answered && n != answered+1 {
				t.Errorf("round %d: import %d is in force, answered was %d", round, n, answered)
			}
			values := c.Settings.Values()
			if want := parsed(t, "x.yaml", numbered(n), t.TempDir()); !reflect.DeepEqual(c.All, want.All) || !reflect.DeepEqual(c.Scopes, want.Scopes) ||
				values.Format(live.CreditsMax) != fmt.Sprint(n) {
				t.Errorf("round %d: not all of import %d is in force:\n%s", round, n, res.GetText())
			}
			answered = n
		}
		kill := 1 + random.IntN(5) // answers before it is killed, while the next import goes on
		for i := 0; ; i++ {
			done := make(chan error, 1)
			go func(n int) {
				_, err := service.ImportConfiguration(t.Context(), &rdmadv1.ImportConfigurationRequest{File: "x.yaml", Text: numbered(n)})
				done <- err
			}(answered + 1)
			if i == kill { // at any moment of the import
				<-time.After(time.Duration(random.IntN(20)) * time.Millisecond)
				p.cmd.Process.Kill()
			}
			err := <-done
			if err == nil {
				answered++
			} else if status.Code(err) != codes.Unavailable {
				t.Fatalf("round %d: %v", round, err)
			}
			if i == kill {
				break
			}
		}
		conn.Close()
		p.kill()
	}
}

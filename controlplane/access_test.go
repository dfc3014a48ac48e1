package controlplane_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestModeOfTheSocket: those may open it who have a role.
func TestModeOfTheSocket(t *testing.T) {
	viewer := auth.Viewer
	for want, rules := range map[os.FileMode]auth.Rules{
		0o600: {},
		0o660: {Group: "0"},
		0o666: {Group: "0", Default: &viewer},
	} {
		if want != 0o600 && os.Getuid() != 0 {
			continue // only root may give a file to any group
		}
		path := filepath.Join(t.TempDir(), "control")
		_, client := serve(t, controlplane.Config{
			Dataplane: &planetest.Plane{}, Listen: "unix://" + path, Access: controlplane.Access{Rules: rules},
		})
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%+v: mode %v, %v, want %v", rules, info.Mode(), err, want)
		}
		st, err := rdmadv1.NewStatusServiceClient(client).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{})
		if err != nil || !strings.HasPrefix(st.GetActor(), "uid ") || st.GetRole() != rdmadv1.Role_ROLE_ADMIN {
			t.Errorf("%v, %v", st, err)
		}
	}
}

func TestDefaultRoleOfTheLoopback(t *testing.T) {
	viewer := auth.Viewer
	_, client := serve(t, controlplane.Config{
		Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0", Access: controlplane.Access{Rules: auth.Rules{Default: &viewer}},
	})
	st, err := rdmadv1.NewStatusServiceClient(client).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{})
	if err != nil || st.GetActor() != auth.Anonymous || st.GetRole() != rdmadv1.Role_ROLE_VIEWER {
		t.Errorf("%v, %v", st, err)
	}
	_, err = rdmadv1.NewSettingsServiceClient(client).SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{})
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("%v", err)
	}
}

// TestAuditOverTheWire: a change, what was before and after, and where it came
// from, through a restart.
func TestAuditOverTheWire(t *testing.T) {
	dir := t.TempDir()
	c, client := serve(t, controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0"}, func(c *controlplane.Controlplane) {
		must(t, c.OpenAudit(dir))
	})
	seven := uint32(7)
	if _, err := rdmadv1.NewSettingsServiceClient(client).SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{
		Settings: &rdmadv1.Settings{Credits: &rdmadv1.CreditsSettings{Max: &seven}},
	}); err != nil {
		t.Fatal(err)
	}
	c.RecordReload("rdmad.yaml", os.ErrPermission)
	res, err := rdmadv1.NewAuditServiceClient(client).ListAudit(t.Context(), &rdmadv1.ListAuditRequest{})
	if err != nil || len(res.GetEntries()) != 2 {
		t.Fatalf("%v, %v", res, err)
	}
	reload, set := res.GetEntries()[0], res.GetEntries()[1]
	if reload.GetActor() != auth.Daemon || reload.GetAction() != "reload" || reload.GetOutcome() != "INVALID_ARGUMENT" || reload.GetReason() != "permission denied" {
		t.Errorf("%v", reload)
	}
	if set.GetActor() != auth.Anonymous || !strings.HasPrefix(set.GetOrigin(), "127.0.0.1:") || set.GetAction() != "rdmad.v1.SettingsService/SetSettings" ||
		set.GetAfter() != "credits.max=7" || set.GetOutcome() != audit.OK || set.GetRevision() != 1 {
		t.Errorf("%v", set)
	}
	if r, err := audit.Verify(dir); err != nil || r.Last != 3 {
		t.Errorf("%+v, %v", r, err)
	}
}

// TestAuditOfTheEnd: what rdmad changes by itself while it ends, after its watchers, is in the audit log, too.
func TestAuditOfTheEnd(t *testing.T) {
	dir := t.TempDir()
	var c *controlplane.Controlplane
	begun := make(chan struct{})
	var watched *desired.Watcher
	c, client := serve(t, controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0", Daemon: grpcapi.Daemon{
		Import: func(context.Context, *grpcapi.Import) (*grpcapi.Imported, error) { // keeps the end waiting
			close(begun)
			<-watched.Done()
			assign(t, c, 2, 8, 0)
			return &grpcapi.Imported{}, nil
		},
	}}, func(c *controlplane.Controlplane) {
		must(t, c.OpenAudit(dir))
	})
	watched = have(c.Settings.Watch())(t)
	assign(t, c, 1, 9, 0)
	imported := make(chan error, 1)
	go func() {
		_, err := rdmadv1.NewConfigurationServiceClient(client).ImportConfiguration(t.Context(), &rdmadv1.ImportConfigurationRequest{})
		imported <- err
	}()
	<-begun
	must(t, c.Shutdown(t.Context()))
	must(t, <-imported)
	log := have(audit.Open(audit.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)}))(t)
	defer log.Close()
	all, _, err := log.List(t.Context(), audit.Query{Limit: 100, Actor: auth.Daemon})
	must(t, err)
	var got []string
	for _, e := range slices.Backward(all) {
		got = append(got, fmt.Sprintf("%d %s", e.Revision, e.Action))
	}
	if want := []string{"1 fleet", "2 fleet"}; !slices.Equal(got, want) {
		t.Errorf("recorded %q, want %q", got, want)
	}
}

// assign puts settings of the fleet in force.
func assign(t *testing.T, c *controlplane.Controlplane, assignment int64, credits uint32, window time.Duration) {
	t.Helper()
	var v settings.FleetValues
	v.Values.Set(live.CreditsMax, credits)
	f := settings.FleetLayer{Cluster: 1, Assignment: assignment, Scopes: map[settings.Scope]settings.FleetValues{{}: v}}
	if _, ok, err := c.Settings.Assign(f, window); !ok || err != nil {
		t.Error(ok, err)
	}
}

// TestAuditOfAssignments: each assignment by the fleet is in the audit log once, also if it waited to be
// confirmed.
func TestAuditOfAssignments(t *testing.T) {
	dir := t.TempDir()
	c, client := serve(t, controlplane.Config{Dataplane: &planetest.Plane{}, Listen: "127.0.0.1:0"}, func(c *controlplane.Controlplane) {
		must(t, c.OpenAudit(dir))
	})
	assign(t, c, 1, 9, 0)
	assign(t, c, 2, 8, time.Hour)
	assign(t, c, 3, 8, 0) // confirms it
	assign(t, c, 4, 7, time.Hour)
	have(rdmadv1.NewSettingsServiceClient(client).RollbackSettings(t.Context(), &rdmadv1.RollbackSettingsRequest{Revision: 3}))(t)
	must(t, c.Shutdown(t.Context())) // then all is recorded
	log := have(audit.Open(audit.Config{Dir: dir, Logger: slog.New(slog.DiscardHandler)}))(t)
	defer log.Close()
	all, _, err := log.List(t.Context(), audit.Query{Limit: 100})
	must(t, err)
	var got []string
	for _, e := range all {
		got = append(got, fmt.Sprintf("%d %s -> %s", e.Revision, e.Before, e.After))
	}
	slices.Sort(got) // the rollback may be recorded before the last assignment
	want := []string{
		"1 fleet global:credits.max unset -> fleet global:credits.max=9",
		"2 fleet global:credits.max=9 -> fleet global:credits.max=8",
		"3  -> ",
		"4 fleet global:credits.max=8 -> fleet global:credits.max=7",
		"5 fleet global:credits.max=7 -> fleet global:credits.max=8",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAccessRefuses(t *testing.T) {
	for want, cfg := range map[string]controlplane.Config{
		"control.group: there is no group nobody-has-this": {Listen: "127.0.0.1:0", Access: controlplane.Access{Rules: auth.Rules{Group: "nobody-has-this"}}},
		"control.tls.cert: stat ":                          {Listen: "127.0.0.1:0", Access: controlplane.Access{TLS: &auth.Files{Cert: "/none"}}},
		"control.tls: unix:///x is a Unix socket":          {Listen: "unix:///x", Access: controlplane.Access{TLS: &auth.Files{}}},
	} {
		cfg.Dataplane = &planetest.Plane{}
		if _, err := controlplane.New(t.Context(), cfg); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestInsecureIsLoud: anybody gets in, and the log says so.
func TestInsecureIsLoud(t *testing.T) {
	var log bytes.Buffer
	c, err := controlplane.New(t.Context(), controlplane.Config{
		Dataplane: &planetest.Plane{}, Listen: "0.0.0.0:0", Access: controlplane.Access{Insecure: true},
		Logger: slog.New(slog.NewTextHandler(&log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Shutdown(t.Context())
	if !strings.Contains(log.String(), "level=WARN msg=\"THE CONTROL PLANE IS OPEN") {
		t.Errorf("log:\n%s", log.String())
	}
}

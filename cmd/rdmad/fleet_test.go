package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/conditions"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// member starts a daemon with a section of its configuration, "" for none, over a state
// directory. end stops it.
func member(t *testing.T, state, section string) (d *daemon, end func()) {
	t.Helper()
	return memberAt(t, "127.0.0.1:0", state, section)
}

// memberAt is member with a listener at an address.
func memberAt(t *testing.T, address, state, section string) (d *daemon, end func()) {
	t.Helper()
	c, err := config.Parse("f.yaml", fmt.Appendf(nil, `
control: {listen: "127.0.0.1:0"}
metrics: {listen: ""}
state: {path: %q}
services: [{name: test, echo: {}}]
listeners: [{name: test, provider: softiwarp, address: %q, service: test}]
%s`, state, address, section), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	d, err = bind(t.Context(), c, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		d.close()
		t.Fatal(err)
	}
	d.start()
	ended := false
	end = func() {
		if !ended {
			ended = true
			d.stop(time.Second)
		}
	}
	t.Cleanup(end)
	return d, end
}

// joined waits until a daemon's membership has a reason.
func joined(t *testing.T, d *daemon, want *conditions.Reason) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w := d.health.known.Watch()
	defer w.Close()
	for w.Next(ctx.Done()) {
		if c := d.health.known.List().Find(conditions.Fleet, "n1"); c != nil && c.Reason == want {
			return
		}
	}
	t.Fatalf("%v, want %s", d.health.known.List(), want.Name)
}

// awaitFleet waits until the fleet's layer in force has a value of inline.send_max.
func awaitFleet(t *testing.T, d *daemon, want uint32) {
	t.Helper()
	w := have(d.control.Settings.Watch())(t)
	defer w.Close()
	for {
		f, _ := d.control.Settings.Fleet()
		v := f.Scopes[settings.Scope{}].Values
		if v.Value(live.InlineSendMax) == want {
			return
		}
		select {
		case <-w.Events():
		case <-time.After(time.Minute):
			t.Fatalf("%+v, want %d", f, want)
		}
	}
}

// A daemon that ends answers about the fleet for as long as it answers at all. A watch of a rollout
// ends with the daemon, not as if the rollout had ended.
func TestFleetIsThereUntilTheControlPlaneEnds(t *testing.T) {
	e := etcdtest.Start(t)
	d, end := member(t, filepath.Join(t.TempDir(), "state"), fmt.Sprintf("fleet: {endpoints: [%q], node: n1}", e.Endpoint))
	joined(t, d, conditions.FleetJoined)
	p, err := fleet.ReadPolicy("p.yaml", []byte("name: small\nsettings: {inline: {send_max: 2KiB}}"))
	if err != nil {
		t.Fatal(err)
	}
	begun, err := d.fleet.store.Apply(t.Context(), fleet.Revision{Policy: *p}, fleet.DefaultPlan(), false)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(d.control.Addr(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watch, err := rdmadv1.NewFleetServiceClient(conn).WatchRollout(t.Context(), &rdmadv1.WatchRolloutRequest{Id: begun.String()})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	end()
	for err == nil {
		_, err = watch.Recv()
	}
	if status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "shutting down") {
		t.Error(err)
	}
}

// A daemon applies a policy, keeps it over a restart without etcd, ends without etcd, and drops
// it when it is no longer in a fleet.
func TestFleet(t *testing.T) {
	e := etcdtest.Start(t)
	state := filepath.Join(t.TempDir(), "state")
	section := fmt.Sprintf("fleet: {endpoints: [%q], node: n1, labels: {role: gateway}}", e.Endpoint)
	d, end := member(t, state, section)
	joined(t, d, conditions.FleetJoined)
	p := have(fleet.ReadPolicy("p.yaml", []byte("name: small\nselector: {role: gateway}\nsettings: {inline: {send_max: 2KiB}}")))(t)
	if _, err := d.fleet.store.Apply(t.Context(), fleet.Revision{Policy: *p}, nil, false); err != nil {
		t.Fatal(err)
	}
	awaitFleet(t, d, 2048)
	d.fleet.count(t.Context())
	if m := d.fleet.measure(); !m.Connected || !m.Controller || m.Nodes["up"] != 1 || m.Nodes["down"] != 0 {
		t.Errorf("%+v", m)
	}
	families, err := d.registry.Gather()
	if err != nil || !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == "rdmad_fleet_connected" }) {
		t.Errorf("no metrics of the fleet: %v", err)
	}
	e.Kill(t)
	end()

	d, end = member(t, state, section)
	awaitFleet(t, d, 2048)
	joined(t, d, conditions.FleetAway)
	awaitFleet(t, d, 2048)
	end()

	d, _ = member(t, state, "")
	if f, _ := d.control.Settings.Fleet(); f.Assignment != 0 || len(f.Scopes) != 0 {
		t.Errorf("outside of the fleet: %+v", f)
	}
}

// TestNoReportOfTheEnd: the fleet gets no report of what drains because rdmad ends. A rollout would halt.
func TestNoReportOfTheEnd(t *testing.T) {
	d, end := member(t, t.TempDir(), "fleet: {endpoints: [\"http://127.0.0.1:1\"], node: n1}\n")
	cancel, states := d.fleet.cancel, []string(nil)
	d.fleet.cancel = func() {
		states = append(states, d.data.Listeners()[0].State)
		cancel()
	}
	end()
	if len(states) == 0 || states[0] != dataplane.StateUp {
		t.Errorf("the listener is %q when reports end", states)
	}
}

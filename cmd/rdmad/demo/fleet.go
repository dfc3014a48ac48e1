package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/rpcrdma"
)

// gatewayConfiguration is that of a node of the fleet.
const gatewayConfiguration = `control: {listen: "127.0.0.1:0"}
metrics: {listen: ""}
services: [{name: test, echo: {}}]
listeners:
  - {name: echo, provider: softiwarp, address: "127.0.0.1:0", service: test}
settings: {remote_invalidation: {use: false}}
fleet: {endpoints: [%q], node: gateway-%d, labels: {role: gateway}}
`

// gateways is how many rdmads the fleet has.
const gateways = 5

// fleet are the steps of the demonstration of a fleet.
func (d *demo) fleet() []step {
	return []step{d.build, d.startEtcd, d.startGateways, d.goodRollout, d.badRollout, d.calls, d.stop}
}

func (d *demo) startEtcd(ctx context.Context) (err error) {
	d.title("Start etcd")
	d.etcd, err = etcdtest.Launch(ctx, d.dir, etcdtest.Options{Members: 1})
	if err == nil {
		d.say("%s", d.etcd.Endpoints()[0])
	}
	return err
}

func (d *demo) startGateways(ctx context.Context) error {
	d.title(fmt.Sprintf("Start %d rdmads, each with a client that calls over soft-iWARP", gateways))
	for i := range gateways {
		dir := filepath.Join(d.dir, fmt.Sprintf("gateway-%d", i+1))
		if err := os.Mkdir(dir, 0o700); err != nil {
			return err
		}
		dm, err := d.launch(ctx, dir, fmt.Sprintf(gatewayConfiguration, d.etcd.Endpoints()[0], i+1))
		if err != nil {
			return err
		}
		d.daemon = dm
		// The last client differs from the others: the bad rollout can do nothing on its connection.
		if err := d.join(ctx, i < gateways-1); err != nil {
			return err
		}
	}
	if err := d.untilJoined(ctx); err != nil {
		return err
	}
	return d.rdmactl(ctx, "fleet", "nodes")
}

// join gives the newest rdmad a client, which makes a call every few milliseconds. The client lets
// rdmad invalidate its memory, or doesn't.
func (d *demo) join(ctx context.Context, invalidation bool) error {
	settings := rpcrdma.DefaultSettings()
	settings.RemoteInvalidationAccept = invalidation
	s, err := d.dialWith(ctx, "echo", &settings)
	if err == nil {
		d.clients = append(d.clients, s.traffic(ctx, 5*time.Millisecond))
	}
	return err
}

// untilJoined waits until all nodes are up.
func (d *demo) untilJoined(ctx context.Context) error {
	for {
		var answer struct{ Nodes []struct{ State string } }
		if d.answer(ctx, &answer, "fleet", "nodes") == nil && len(answer.Nodes) == gateways {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// policy writes a policy's file.
func (d *demo) policy(file, text string) error {
	d.say("%s:  %s", file, text)
	return os.WriteFile(filepath.Join(d.dir, file), []byte(text), 0o600)
}

func (d *demo) goodRollout(ctx context.Context) error {
	d.title("A good rollout: a canary, then all")
	err := d.policy("small.yaml", `{name: small, selector: {role: gateway}, settings: {inline: {send_max: 2KiB}}}`)
	if err != nil {
		return err
	}
	if err := d.each(ctx,
		[]string{"fleet", "apply", "-f", "small.yaml", "--canary", "1", "--waves", "100%", "--bake", "0s", "--max-p99", "0"},
		[]string{"fleet", "rollouts", "watch", "small@1"},
		[]string{"fleet", "nodes"},
	); err != nil {
		return err
	}
	return d.state(ctx, "small@1", "DONE")
}

func (d *demo) badRollout(ctx context.Context) error {
	d.title("A bad one: UNSUPPORTED for the last gateway's client. The gate halts it, and all take it back")
	err := d.policy("invalidate.yaml", `{name: invalidate, selector: {role: gateway}, settings: {remote_invalidation: {use: true}}}`)
	if err != nil {
		return err
	}
	if err := d.rdmactl(ctx, "fleet", "apply", "-f", "invalidate.yaml", "--canary", "1", "--waves", "100%", "--bake", "0s", "--max-p99", "0"); err != nil {
		return err
	}
	_ = d.rdmactl(ctx, "fleet", "rollouts", "watch", "invalidate@1") // it ends with 1 for a rollout that was taken back
	if err := d.each(ctx,
		[]string{"fleet", "rollouts", "show", "invalidate@1"},
		[]string{"fleet", "nodes"},
		[]string{"fleet", "history", "--limit", "3"},
	); err != nil {
		return err
	}
	return d.state(ctx, "invalidate@1", "ROLLED_BACK")
}

// state checks a rollout's state.
func (d *demo) state(ctx context.Context, id, want string) error {
	var answer struct{ State string }
	if err := d.answer(ctx, &answer, "fleet", "rollouts", "show", id); err != nil {
		return err
	}
	if answer.State != want {
		return fmt.Errorf("rollout %s is %s, not %s", id, answer.State, want)
	}
	return nil
}

func (d *demo) calls(context.Context) error {
	d.title("The clients meanwhile")
	sum := 0
	for _, t := range d.clients {
		t.end()
		if t.err != nil {
			return t.err
		}
		sum += t.calls
	}
	d.say("%d calls, every one answered with the right bytes, none failed", sum)
	return nil
}

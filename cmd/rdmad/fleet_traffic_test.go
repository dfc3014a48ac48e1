package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/controlplane/fleet/etcdtest"
	"github.com/rdmad/rdmad/dataplane/conditions"
	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
)

// steady calls an rdmad without a pause. A call whose connection ends is repeated on the next one.
type steady struct {
	mu     sync.Mutex
	tick   sync.Cond
	served int
	failed error
}

// startCalls makes calls over softiwarp until the test ends.
func startCalls(t *testing.T, address string) *steady {
	t.Helper()
	s := &steady{}
	s.tick.L = &s.mu
	c, err := rpcrdma.Dial(t.Context(), newProvider(t), address, rpcrdma.DialConfig{
		MemoryLimit: rpcrdma.MinMemoryLimit, Logger: slog.New(slog.DiscardHandler), Reconnect: &rpcrdma.Reconnect{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var calling sync.WaitGroup
	calling.Go(func() {
		defer c.Close()
		for s.call(ctx, c) {
		}
	})
	t.Cleanup(func() { // rdmad has ended: the last call waits for it
		cancel()
		calling.Wait()
	})
	return s
}

func (s *steady) call(ctx context.Context, c *rpcrdma.Client) bool {
	err := c.Call(ctx, &rpcrdma.Call{Program: echo.Program, Version: echo.Version})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.failed = err
	} else {
		s.served++
	}
	s.tick.Broadcast()
	return err == nil
}

// flow waits for more answers.
func (s *steady) flow(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for want := s.served + 200; s.served < want && s.failed == nil; {
		s.tick.Wait()
	}
	if s.failed != nil {
		t.Fatalf("a call failed after %d good ones: %v", s.served, s.failed)
	}
}

// No call fails while etcd is away for the whole time, over restarts of rdmad; the policy that was
// assigned before stays in force.
func TestCallsWithoutEtcd(t *testing.T) {
	e := etcdtest.Start(t)
	address := keepPort(t)
	state := filepath.Join(t.TempDir(), "state")
	section := fmt.Sprintf("fleet: {endpoints: [%q], node: n1}", e.Endpoint)
	d, end := memberAt(t, address, state, section)
	joined(t, d, conditions.FleetJoined)
	p := have(fleet.ReadPolicy("p.yaml", []byte("name: small\nsettings: {inline: {send_max: 2KiB}}")))(t)
	if _, err := d.fleet.store.Apply(t.Context(), fleet.Revision{Policy: *p}, nil, false); err != nil {
		t.Fatal(err)
	}
	awaitFleet(t, d, 2048)
	e.Kill(t)

	calls := startCalls(t, address)
	for range 3 {
		joined(t, d, conditions.FleetAway)
		awaitFleet(t, d, 2048)
		calls.flow(t)
		end()
		d, end = memberAt(t, address, state, section)
		calls.flow(t)
	}
	joined(t, d, conditions.FleetAway)
	if len(d.data.Connections()) == 0 {
		t.Error("nothing is served")
	}
	calls.flow(t)
}

package controlplane

import (
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestAuditLogCatchesUp: when the audit log was so slow that its watcher was dropped, it still has
// what rdmad did by itself meanwhile and later.
func TestAuditLogCatchesUp(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	initial := rpcrdma.DefaultSettings()
	store, err := desired.New(&planetest.Plane{}, log, &initial, 0)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	c := &Controlplane{Settings: store, log: log}
	if c.audit, err = audit.Open(audit.Config{Dir: dir, Logger: log}); err != nil {
		t.Fatal(err)
	}
	defer c.audit.Close()
	assign := func(n int) {
		t.Helper()
		var v settings.FleetValues
		v.Values.Set(live.CreditsMax, uint32(1+n%2))
		f := settings.FleetLayer{Cluster: 1, Assignment: int64(n), Scopes: map[settings.Scope]settings.FleetValues{{}: v}}
		if _, ok, err := store.Assign(f, 0); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	own, err := store.Watch()
	if err != nil {
		t.Fatal(err)
	}
	const before = 1500 // revisions: more than wait for one watcher
	for n := range before {
		assign(n + 1)
	}
	<-own.Done()
	if !errors.Is(own.Err(), watch.ErrSlow) {
		t.Fatal(own.Err())
	}
	recorded := make(chan struct{})
	go func() {
		defer close(recorded)
		c.recordOwn(own)
	}()
	for newest, _ := c.audit.Newest(); newest < before; newest, _ = c.audit.Newest() {
		select {
		case <-recorded:
			t.Fatalf("recording ended after %d entries", newest)
		case <-time.After(time.Millisecond):
		}
	}
	assign(before + 1)
	store.EndWatchers()
	<-recorded
	all, _, err := c.audit.List(t.Context(), audit.Query{Limit: 2 * before})
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	if len(all) != before+1 {
		t.Fatalf("%d entries", len(all))
	}
	for i, e := range all {
		if e.Revision != uint32(i+1) || e.Action != "fleet" {
			t.Fatalf("entry %d is %+v", i, e)
		}
	}
}

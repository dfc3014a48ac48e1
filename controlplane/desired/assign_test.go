package desired_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// assigned is what the fleet gives at a scope.
func assigned(t *testing.T, revision int64, scope string, pairs ...any) settings.FleetLayer {
	t.Helper()
	c := change(t, scope, pairs...)
	v := settings.FleetValues{Values: c.Set}
	for _, k := range c.Set.Keys().Keys() {
		v.Policies[k] = "small@3"
	}
	return settings.FleetLayer{Cluster: 1, Assignment: revision, Scopes: map[settings.Scope]settings.FleetValues{c.Scope: v}}
}

func assign(t *testing.T, store *desired.Store, f settings.FleetLayer) desired.Result {
	t.Helper()
	r, ok, err := store.Assign(f, 0)
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	return r
}

// An assignment goes the way of an operator's change: a revision with effects on connections,
// stored, in force after a restart without the fleet, and beneath what operators set.
func TestAssignIsARevision(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings.db")
	store, _ := open(t, path, settings.FileLayer{})
	r := assign(t, store, assigned(t, 40, "listener/nfs", live.InlineSendMax, 2048))
	if r.Revision != 1 || effects(r.Effects) != "1 applied" {
		t.Errorf("%+v", r)
	}
	if e := store.History(0, 1)[0]; e.Kind != history.Fleet || e.Actor.Name != "fleet" {
		t.Errorf("%+v", e)
	}
	if _, ok, err := store.Assign(assigned(t, 40, "listener/nfs", live.InlineSendMax, 2048), 0); ok || err != nil {
		t.Errorf("the same again: %v %v", ok, err)
	}
	must(t, store.Close())
	store, _ = open(t, path, settings.FileLayer{})
	if got, want := sayings(t, store, "listener/nfs"), "4096 default\n2048 fleet small@3 wins"; got != want {
		t.Errorf("after a restart: got\n%s\nwant\n%s", got, want)
	}
	set(t, store, change(t, "listener/nfs", live.InlineSendMax, 1024))
	f, pins := store.Fleet()
	if f.Assignment != 40 || len(pins) != 1 || pins[0].String() != "listener/nfs: inline.send_max is 1024, policy small@3 gives 2048" {
		t.Errorf("%+v %v", f, pins)
	}
	if _, err := store.Rollback(0, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	if got, want := sayings(t, store, "listener/nfs"), "4096 default\n2048 fleet small@3 wins"; got != want {
		t.Errorf("after a rollback: got\n%s\nwant\n%s", got, want)
	}
}

func TestAssignIsRefusedWhole(t *testing.T) {
	store, plane := start(t)
	applied := plane.Applied()
	f := assigned(t, 40, "listener/other", live.CreditsMax, 9)
	f.Scopes[settings.Scope{}] = assigned(t, 40, "global", live.InlineSendMax, 2048).Scopes[settings.Scope{}]
	if _, _, err := store.Assign(f, 0); !errors.As(err, new(*settings.NotFoundError)) {
		t.Errorf("a listener that is not there: %v", err)
	}
	if _, _, err := store.Assign(assigned(t, 40, "global", live.CreditsMax, 0), 0); !errors.As(err, new(*settings.InvalidError)) {
		t.Error(err)
	}
	if _, err := store.Set(change(t, "global", live.InlineSendMax, 1024), desired.Options{ConfirmWithin: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.Assign(assigned(t, 40, "global", live.CreditsMax, 9), 0); !errors.As(err, new(*desired.PendingError)) {
		t.Error(err)
	}
	if got, _ := store.Fleet(); got.Assignment != 0 || plane.Applied() != applied+1 {
		t.Errorf("%+v, applied %d times", got, plane.Applied()-applied)
	}
}

// tried assigns with a confirm window of a minute.
func tried(t *testing.T, store *desired.Store, f settings.FleetLayer) {
	t.Helper()
	if _, ok, err := store.Assign(f, time.Minute); !ok || err != nil {
		t.Fatal(ok, err)
	}
}

// gives checks what the fleet gives for inline.send_max, and by which assignment.
func gives(t *testing.T, store *desired.Store, value uint32, assignment, takenBack int64) {
	t.Helper()
	f, _ := store.Fleet()
	v := f.Scopes[settings.Scope{}].Values
	if got := v.Value(live.InlineSendMax); got != value || f.Assignment != assignment || f.TakenBack != takenBack {
		t.Errorf("%d by assignment %d, %d taken back; want %d by %d, %d taken back", got, f.Assignment, f.TakenBack, value, assignment, takenBack)
	}
}

// A layer that nobody confirms is taken back, over a restart too, and stays taken back until
// there is another one.
func TestAssignIsTakenBack(t *testing.T) {
	for name, restart := range map[string]bool{"running": false, "restarted within the window": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "settings.db")
				store, _ := open(t, path, settings.FileLayer{})
				again := func() {
					if restart {
						closeStore(t, store)
						store, _ = open(t, path, settings.FileLayer{})
					}
				}
				assign(t, store, assigned(t, 40, "global", live.InlineSendMax, 2048))
				tried(t, store, assigned(t, 41, "global", live.InlineSendMax, 1024))
				again()
				gives(t, store, 1024, 41, 0)
				time.Sleep(time.Minute)
				synctest.Wait()
				gives(t, store, 2048, 40, 41)
				again()
				var e *desired.TakenBackError
				for _, window := range []time.Duration{0, time.Minute} {
					_, ok, err := store.Assign(assigned(t, 41, "global", live.InlineSendMax, 1024), window)
					if ok || !errors.As(err, &e) || e.Assignment != 41 {
						t.Errorf("the same again: %v", err)
					}
				}
				gives(t, store, 2048, 40, 41)
				if got, want := statuses(store), "fleet applied, fleet rolled back, auto-rollback applied"; got != want {
					t.Errorf("history %s, want %s", got, want)
				}
				assign(t, store, assigned(t, 42, "global", live.InlineSendMax, 1024))
				gives(t, store, 1024, 42, 0)
			})
		})
	}
}

// A later assignment that gives the same confirms; one that gives something else, or gives the
// same for another window, takes back first.
func TestAssignConcludesAWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := start(t)
		assign(t, store, assigned(t, 40, "global", live.InlineSendMax, 2048))
		tried(t, store, assigned(t, 41, "global", live.InlineSendMax, 1024))
		if r := assign(t, store, assigned(t, 42, "global", live.InlineSendMax, 1024)); r.Revision != 3 || store.Pending() != nil {
			t.Errorf("%+v", r)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		gives(t, store, 1024, 42, 0)
		tried(t, store, assigned(t, 43, "global", live.InlineSendMax, 1536))
		tried(t, store, assigned(t, 44, "global", live.InlineSendMax, 1536))
		assign(t, store, assigned(t, 45, "global", live.CreditsMax, 9))
		gives(t, store, 0, 45, 0)
		const want = "fleet applied, fleet confirmed, fleet applied, fleet rolled back, auto-rollback applied, fleet rolled back, auto-rollback applied, fleet applied"
		if got := statuses(store); got != want {
			t.Errorf("history %s, want %s", got, want)
		}
	})
}

// An operator who rolls back within the window of an assignment takes it back.
func TestOperatorTakesAssignmentBack(t *testing.T) {
	store, _ := start(t)
	set(t, store, change(t, "listener/nfs", live.CreditsMax, 9))
	assign(t, store, assigned(t, 40, "global", live.InlineSendMax, 2048))
	tried(t, store, assigned(t, 41, "global", live.InlineSendMax, 1024))
	if _, err := store.Set(change(t, "global", live.CreditsMax, 10), desired.Options{}); !errors.As(err, new(*desired.PendingError)) {
		t.Error(err)
	}
	if _, err := store.Rollback(0, desired.Options{}); err != nil {
		t.Fatal(err)
	}
	gives(t, store, 2048, 40, 41)
}

// An operator can't confirm an assignment: the node would keep a change that did harm elsewhere.
func TestOperatorsConfirmNoAssignment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, _ := start(t)
		assign(t, store, assigned(t, 40, "global", live.InlineSendMax, 2048))
		tried(t, store, assigned(t, 41, "global", live.InlineSendMax, 1024))
		var e *desired.PendingError
		if err := store.Confirm(2); !errors.As(err, &e) || !strings.HasPrefix(err.Error(), "revision 2 is an assignment of the fleet, which the controller confirms until ") {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		gives(t, store, 2048, 40, 41)
	})
}

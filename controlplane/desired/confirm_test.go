package desired_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/history"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// fileLayer is what a configuration file says.
func fileLayer(pairs ...any) settings.FileLayer {
	f := settings.FileLayer{Name: "rdmad.yaml"}
	for i := 0; i < len(pairs); i += 2 {
		k := pairs[i].(settings.Key)
		f.Values.Set(k, uint32(pairs[i+1].(int)))
		f.Lines[k] = 10 + i
	}
	return f
}

// open is start with a state file.
func open(t *testing.T, path string, f settings.FileLayer) (*desired.Store, *planetest.Plane) {
	t.Helper()
	store, plane := start(t)
	if _, err := store.Open(path, f); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, store) })
	return store, plane
}

func closeStore(t *testing.T, store *desired.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Error(err)
	}
}

var defaultFile = fileLayer(live.CreditsMax, 64)

// try sets a value that has to be confirmed within a minute.
func try(t *testing.T, store *desired.Store, scope string, pairs ...any) desired.Result {
	t.Helper()
	r := have(store.Set(change(t, scope, pairs...), desired.Options{ConfirmWithin: time.Minute}))(t)
	if r.ConfirmDeadline.Before(time.Now()) {
		t.Fatalf("deadline %v", r.ConfirmDeadline)
	}
	return r
}

// value of inline.send_max at a scope, with its origin.
func value(t *testing.T, store *desired.Store, scope string) string {
	t.Helper()
	v := have(store.Get(change(t, scope).Scope))(t)
	return v.Values.Format(live.InlineSendMax) + " " + v.Origins[live.InlineSendMax].Source
}

// statuses are the history in short, the oldest first.
func statuses(store *desired.Store) string {
	var out []string
	for _, e := range store.History(0, 0) {
		out = append([]string{e.Kind.String() + " " + e.Status.String()}, out...)
	}
	return strings.Join(out, ", ")
}

func TestUnconfirmedIsRolledBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, plane := open(t, filepath.Join(t.TempDir(), "settings.db"), defaultFile)
		set(t, store, change(t, "global", live.InlineSendMax, 2048))
		try(t, store, "global", live.InlineSendMax, 1024, live.DDPMinChunk, 0)
		time.Sleep(59 * time.Second)
		synctest.Wait()
		if got := value(t, store, "connection/1"); got != "1024 global" || store.Pending().Revision != 2 {
			t.Errorf("within the window: %s", got)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := value(t, store, "connection/1"); got != "2048 global" || store.Revision() != 3 || store.Pending() != nil {
			t.Errorf("after it: %s at revision %d", got, store.Revision())
		}
		for _, c := range plane.Connections() {
			if c.InlineSend != 2048 {
				t.Errorf("connection %s sends %d inline", c.ID, c.InlineSend)
			}
		}
		if got, want := statuses(store), "set applied, set rolled back, auto-rollback applied"; got != want {
			t.Errorf("history %s, want %s", got, want)
		}
		var e *desired.NotPendingError
		if err := store.Confirm(2); !errors.As(err, &e) || e.Pending != 0 {
			t.Errorf("confirmed too late: %v", err)
		}
	})
}

func TestConfirmedStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "settings.db")
		store, _ := open(t, path, defaultFile)
		r := try(t, store, "listener/nfs", live.InlineSendMax, 1024)
		if err := store.Confirm(7); err == nil ||
			err.Error() != "revision 7 doesn't wait to be confirmed; revision 1 does" {
			t.Errorf("%v", err)
		}
		must(t, store.Confirm(r.Revision))
		time.Sleep(time.Hour)
		synctest.Wait()
		closeStore(t, store)
		store, _ = open(t, path, defaultFile)
		if got := value(t, store, "listener/nfs"); got != "1024 listener/nfs" || statuses(store) != "set confirmed" {
			t.Errorf("%s, history %s", got, statuses(store))
		}
	})
}

// TestWindowOutlivesTheProcess: at the deadline when that is still to come,
// else at once.
func TestWindowOutlivesTheProcess(t *testing.T) {
	for name, down := range map[string]time.Duration{"up again in time": 20 * time.Second, "too late": time.Hour} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				path := filepath.Join(t.TempDir(), "settings.db")
				store, _ := open(t, path, defaultFile)
				try(t, store, "global", live.InlineSendMax, 1024)
				closeStore(t, store)
				time.Sleep(down)
				store, _ = open(t, path, defaultFile)
				if down < time.Minute {
					if got := value(t, store, "global"); got != "1024 global" {
						t.Errorf("in the window: %s", got)
					}
					time.Sleep(time.Minute - down)
					synctest.Wait()
				}
				if got := value(t, store, "global"); got != "4096 default" || store.Revision() != 2 {
					t.Errorf("afterwards: %s at revision %d", got, store.Revision())
				}
				if got, want := statuses(store), "set rolled back, auto-rollback applied"; got != want {
					t.Errorf("history %s, want %s", got, want)
				}
			})
		})
	}
}

// TestNothingElseInTheWindow: but confirm and rollback.
func TestNothingElseInTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, plane := start(t)
		try(t, store, "global", live.InlineSendMax, 1024)
		applied, dump := plane.Applied(), store.Dump()
		for name, f := range map[string]func() error{
			"set": func() error {
				_, err := store.Set(change(t, "global", live.DDPMinChunk, 0), desired.Options{})
				return err
			},
			"dry run": func() error {
				_, err := store.Set(change(t, "global", live.DDPMinChunk, 0), desired.Options{DryRun: true})
				return err
			},
			"reload": func() error {
				_, _, err := store.Reload(fileLayer(live.DDPMinChunk, 0))
				return err
			},
			"load": func() error {
				_, err := store.Load(&dump, desired.Options{})
				return err
			},
			"rollback with a window": func() error {
				_, err := store.Rollback(0, desired.Options{ConfirmWithin: time.Minute})
				return err
			},
		} {
			var e *desired.PendingError
			if err := f(); !errors.As(err, &e) || e.Revision != 1 || e.Deadline != store.Pending().Deadline {
				t.Errorf("%s: %v", name, err)
			}
		}
		if store.Revision() != 1 || plane.Applied() != applied {
			t.Errorf("revision %d, applied %d times", store.Revision(), plane.Applied())
		}
		if _, err := store.Rollback(0, desired.Options{}); err != nil {
			t.Fatal(err)
		}
		if got, want := statuses(store), "set rolled back, rollback applied"; got != want {
			t.Errorf("history %s, want %s", got, want)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if store.Revision() != 2 {
			t.Errorf("the clock ran on: revision %d", store.Revision())
		}
		set(t, store, change(t, "global", live.DDPMinChunk, 0))
	})
}

// overdue returns a store with a revision whose deadline is over, and a disk without room for its rollback.
func overdue(t *testing.T) (*desired.Store, *flakyDisk) {
	store, _ := start(t)
	disk := &flakyDisk{}
	store.UseDisk(disk)
	try(t, store, "global", live.InlineSendMax, 1024)
	disk.failWith(errNoRoom)
	time.Sleep(2 * time.Minute) // of synctest
	synctest.Wait()
	return store, disk
}

// TestRollbackOfAWindowIsRetried: a disk without room only delays it.
func TestRollbackOfAWindowIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, disk := overdue(t)
		if got := value(t, store, "global"); got != "1024 global" || store.Pending() == nil {
			t.Errorf("without room: %s", got)
		}
		var late *desired.NotPendingError
		if err := store.Confirm(1); !errors.As(err, &late) {
			t.Errorf("confirmed after its time: %v", err)
		}
		disk.failWith(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := value(t, store, "global"); got != "4096 default" || store.Pending() != nil {
			t.Errorf("with room: %s", got)
		}
	})
}

func TestOptionsAreChecked(t *testing.T) {
	store, _ := start(t)
	for want, o := range map[string]desired.Options{
		"confirm_within: must be between 1s and 24h0m0s (is 999ms)":       {ConfirmWithin: 999 * time.Millisecond},
		"confirm_within: must be between 1s and 24h0m0s (is -1s)":         {ConfirmWithin: -time.Second},
		"confirm_within: must be between 1s and 24h0m0s (is 24h0m0.001s)": {ConfirmWithin: 24*time.Hour + time.Millisecond},
		"comment: must be text of at most 512 bytes (is 513)":             {Comment: strings.Repeat("x", 513)},
		"comment: must be text of at most 512 bytes (is 1)":               {Comment: "\xff"},
	} {
		_, err := store.Set(change(t, "global", live.DDPMinChunk, 0), o)
		var e *settings.InvalidError
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	long := desired.Options{Actor: history.Actor{Name: strings.Repeat("é", 200), From: "unix"}, Comment: "why"}
	if _, err := store.Set(change(t, "global", live.DDPMinChunk, 0), long); err != nil {
		t.Fatal(err)
	}
	e := store.History(0, 1)[0]
	if e.Actor.Name != strings.Repeat("é", 128) || e.Actor.From != "unix" || e.Comment != "why" {
		t.Errorf("%+v", e)
	}
}

// TestUnconfirmedWithoutRoom: a start does not fail because the rollback of what nobody confirmed
// can't be stored. It is tried again.
func TestUnconfirmedWithoutRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		path := filepath.Join(dir, "s.db")
		store, _ := open(t, path, defaultFile)
		try(t, store, "global", live.InlineSendMax, 1024)
		closeStore(t, store)
		time.Sleep(time.Hour)
		full := filepath.Join(dir, "s."+strings.Repeat("d", 253)) // no name is left for what replaces it
		if err := os.Rename(path, full); err != nil {
			t.Fatal(err)
		}
		store, _ = open(t, full, defaultFile)
		if got := value(t, store, "global"); got != "1024 global" || store.Pending() == nil {
			t.Errorf("%s, pending %+v", got, store.Pending())
		}
		if err := os.Rename(full, path); err != nil {
			t.Fatal(err)
		}
		closeStore(t, store)
		store, _ = open(t, path, defaultFile)
		if got := value(t, store, "global"); got != "4096 default" || store.Pending() != nil {
			t.Errorf("with room: %s, pending %+v", got, store.Pending())
		}
	})
}

// TestOverdueHoldsNothingUp: a revision whose deadline is over, but whose timer has not run out yet, is
// rolled back by the next request, which finds no window any more.
func TestOverdueHoldsNothingUp(t *testing.T) {
	for name, do := range map[string]func(*desired.Store) error{
		"confirm": func(s *desired.Store) error {
			var late *desired.NotPendingError
			if err := s.Confirm(1); !errors.As(err, &late) {
				return fmt.Errorf("confirmed after its time: %w", err)
			}
			return nil
		},
		"set": func(s *desired.Store) error {
			_, err := s.Set(change(t, "global", live.DDPMinChunk, 0), desired.Options{})
			return err
		},
		"rollback": func(s *desired.Store) error {
			_, err := s.Rollback(0, desired.Options{})
			return err
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			store, disk := overdue(t)
			disk.failWith(nil)
			if err := do(store); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if got := value(t, store, "global"); got != "4096 default" || store.Pending() != nil {
				t.Errorf("%s: %s, pending %+v", name, got, store.Pending())
			}
			revision := store.Revision()
			time.Sleep(time.Hour)
			synctest.Wait()
			if store.Revision() != revision {
				t.Errorf("%s: the clock ran on: revision %d after %d", name, store.Revision(), revision)
			}
		})
	}
}

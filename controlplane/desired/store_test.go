package desired_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// start is a store over a plane with a listener and three connections, of
// which the third's peer doesn't take remote invalidation.
func start(t *testing.T) (*desired.Store, *planetest.Plane) {
	t.Helper()
	plane := &planetest.Plane{}
	store := have(desired.New(plane, slog.New(slog.NewTextHandler(io.Discard, nil)), new(rpcrdma.DefaultSettings()), settings.KeySet(0).With(live.CreditsMax)))(t)
	plane.Use(store.Resolve)
	plane.Listen("nfs", "127.0.0.1:20049")
	plane.Listen("test", "127.0.0.1:20050")
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "10.1.2.3:1001"})
	plane.Connect(planetest.Peer{ID: "2", Listener: "test", Address: "192.0.2.7:1002"})
	plane.Connect(planetest.Peer{ID: "3", Listener: "test", Address: "192.0.2.7:1003", NoInvalidation: true})
	return store, plane
}

func change(t *testing.T, scope string, pairs ...any) settings.Change {
	t.Helper()
	s := have(settings.ParseScope(scope))(t)
	c := settings.Change{Scope: s}
	for i := 0; i < len(pairs); i += 2 {
		c.Set.Set(pairs[i].(settings.Key), uint32(pairs[i+1].(int)))
	}
	return c
}

func set(t *testing.T, store *desired.Store, c settings.Change) desired.Result {
	t.Helper()
	r := have(store.Set(c, desired.Options{}))(t)
	return r
}

// effects writes them one a line.
func effects(all []desired.Effect) string {
	names := []string{"applied", "pending", "unsupported"}
	var out []string
	for _, e := range all {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %s", e.ConnID, names[e.Outcome], e.Reason)))
	}
	return strings.Join(out, "\n")
}

func TestEffectsAreThoseOfTheScope(t *testing.T) {
	for scope, want := range map[string]string{
		"global":          "1 applied\n2 applied\n3 applied",
		"listener/nfs":    "1 applied",
		"peer/10.0.0.0/8": "1 applied",
		"connection/2":    "2 applied",
		"peer/::/0":       "",
	} {
		store, plane := start(t)
		r := set(t, store, change(t, scope, live.InlineSendMax, 1024))
		if got := effects(r.Effects); got != want || r.Revision != 1 {
			t.Errorf("%s: revision %d, effects\n%s\nwant\n%s", scope, r.Revision, got, want)
		}
		for _, c := range plane.Connections() {
			if hit := strings.Contains(want, c.ID+" "); (c.InlineSend == 1024) != hit {
				t.Errorf("%s: connection %s sends %d inline", scope, c.ID, c.InlineSend)
			}
		}
	}
}

func TestEffectsSayWhatVersionOneFixes(t *testing.T) {
	store, _ := start(t)
	r := set(t, store, change(t, "global", live.InlineReceiveSize, 8192, live.RemoteInvalidationUse, 1))
	want := `1 pending inline.receive_size: version 1 fixes it at connect, 4096 bytes here
2 pending inline.receive_size: version 1 fixes it at connect, 4096 bytes here
3 unsupported inline.receive_size: version 1 fixes it at connect, 4096 bytes here; remote_invalidation.use: the peer did not offer it`
	if got := effects(r.Effects); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestConnectionScopeCannotWaitForReconnect(t *testing.T) {
	store, _ := start(t)
	r := set(t, store, change(t, "connection/1", live.InlineReceiveSize, 8192))
	want := "1 unsupported inline.receive_size: version 1 fixes it at connect, 4096 bytes here; " +
		"settings of a connection end with it; set it at listener or peer scope"
	if got := effects(r.Effects); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestEffectsNameNarrowerScopes(t *testing.T) {
	store, _ := start(t)
	set(t, store, change(t, "connection/1", live.DDPMinChunk, 7))
	r := set(t, store, change(t, "global", live.DDPMinChunk, 9, live.InlineSendMax, 2048))
	want := "1 applied ddp.min_chunk: stays 7, set at connection/1\n2 applied\n3 applied"
	if got := effects(r.Effects); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A connection's own settings, and those that it shares with others of its
// listener and peer, each have their say, on whichever connections come before
// it.
func TestEffectsOfOwnAndSharedScopes(t *testing.T) {
	store, plane := start(t)
	plane.Connect(planetest.Peer{ID: "4", Listener: "nfs", Address: "10.1.2.3:1004"})
	set(t, store, change(t, "listener/test", live.InlineSendMax, 1500))
	set(t, store, change(t, "peer/192.0.2.0/24", live.DDPMinChunk, 8))
	set(t, store, change(t, "connection/2", live.DDPMinChunk, 7, live.CreditsMax, 5))
	r := set(t, store, change(t, "global", live.InlineSendMax, 2048, live.DDPMinChunk, 9))
	want := `1 applied
2 applied inline.send_max: stays 1500, set at listener/test; ddp.min_chunk: stays 7, set at connection/2
3 applied inline.send_max: stays 1500, set at listener/test; ddp.min_chunk: stays 8, set at peer/192.0.2.0/24
4 applied`
	if got := effects(r.Effects); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for i, want := range []string{"2048 9 64", "1500 7 5", "1500 8 64", "2048 9 64"} {
		s := plane.Connections()[i].Settings
		if got := fmt.Sprint(s.InlineSendMax, s.DDPMinChunk, s.CreditsMax); got != want {
			t.Errorf("connection %d: %s, want %s", i+1, got, want)
		}
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	store, plane := start(t)
	before := plane.Connections()
	r := have(store.Set(change(t, "listener/nfs", live.InlineReceiveSize, 8192), desired.Options{DryRun: true}))(t)
	if got := effects(r.Effects); r.Revision != 0 || !strings.HasPrefix(got, "1 pending inline.receive_size") {
		t.Errorf("revision %d, effects %s", r.Revision, got)
	}
	if plane.Applied() != 0 || store.Revision() != 0 {
		t.Errorf("applied %d times, revision %d", plane.Applied(), store.Revision())
	}
	for i, c := range plane.Connections() {
		if *c.Settings != *before[i].Settings {
			t.Errorf("connection %s changed", c.ID)
		}
	}
	if _, err := store.Set(change(t, "global", live.CreditsMax, 0), desired.Options{DryRun: true}); err == nil {
		t.Error("a dry run doesn't check")
	}
}

func TestRefusedChangesReachNobody(t *testing.T) {
	stale := uint32(5)
	for name, c := range map[string]func(*settings.Change){
		"out of range": func(c *settings.Change) { c.Set.Set(live.CreditsMax, 0) },
		"stale":        func(c *settings.Change) { c.Expected = &stale },
		"no listener":  func(c *settings.Change) { c.Scope = settings.Scope{Kind: settings.Listener, Name: "nobody"} },
		"no connection": func(c *settings.Change) {
			c.Scope = settings.Scope{Kind: settings.Connection, Name: "99"}
		},
		"without version 2": func(c *settings.Change) { c.Set.Set(live.ExtensionSendDDP, 1) },
	} {
		store, plane := start(t)
		ch := change(t, "global", live.InlineSendMax, 1024)
		c(&ch)
		if _, err := store.Set(ch, desired.Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
		if plane.Applied() != 0 || store.Revision() != 0 {
			t.Errorf("%s: applied %d times, revision %d", name, plane.Applied(), store.Revision())
		}
	}
}

func TestGet(t *testing.T) {
	store, plane := start(t)
	set(t, store, change(t, "peer/10.0.0.0/8", live.InlineSendMax, 1024))
	for scope, want := range map[string]string{
		"global":          "4096 default",
		"peer/10.0.0.0/8": "1024 peer/10.0.0.0/8",
		"connection/1":    "1024 peer/10.0.0.0/8",
		"connection/2":    "4096 default",
		"listener/nfs":    "4096 default",
	} {
		view := have(store.Get(change(t, scope).Scope))(t)
		got := view.Values.Format(live.InlineSendMax) + " " + view.Origins[live.InlineSendMax].Source
		if got != want || view.Revision != 1 {
			t.Errorf("%s: %s at %d, want %s", scope, got, view.Revision, want)
		}
	}
	plane.Disconnect("1", "test")
	for _, scope := range []string{"connection/1", "listener/other"} {
		_, err := store.Get(change(t, scope).Scope)
		var notFound *settings.NotFoundError
		if !errors.As(err, &notFound) || !strings.Contains(err.Error(), scope) {
			t.Errorf("%s: %v", scope, err)
		}
	}
}

func TestConnectionScopeEndsWithTheConnection(t *testing.T) {
	for name, end := range map[string]func(*desired.Store){
		"told":   func(s *desired.Store) { s.Ended("1") },
		"missed": func(s *desired.Store) { s.Reconcile() },
	} {
		store, plane := start(t)
		set(t, store, change(t, "connection/1", live.InlineSendMax, 1024))
		set(t, store, change(t, "connection/2", live.InlineSendMax, 2048))
		gone := have(plane.Connection("1"))(t)
		plane.Disconnect("1", "test")
		end(store)
		if got := store.Resolve(gone.ConnKey).InlineSendMax; got != 4096 {
			t.Errorf("%s: the scope of connection 1 lives on: %d", name, got)
		}
		alive := have(plane.Connection("2"))(t)
		if got := store.Resolve(alive.ConnKey).InlineSendMax; got != 2048 || store.Revision() != 2 {
			t.Errorf("%s: connection 2 has %d at revision %d", name, got, store.Revision())
		}
	}
}

func TestInitialSettingsAreChecked(t *testing.T) {
	bad := rpcrdma.DefaultSettings()
	bad.CreditsMax = 0
	if _, err := desired.New(&planetest.Plane{}, slog.Default(), &bad, 0); err == nil ||
		err.Error() != "settings: credits.max: must be between 1 and 1024 calls (is 0)" {
		t.Errorf("%v", err)
	}
}

// TestConcurrentChanges: of changes made for the same revision one wins, and
// readers see whole changes only.
func TestConcurrentChanges(t *testing.T) {
	store, plane := start(t)
	key := dataplane.ConnKey{Listener: "nfs", ID: "1"}
	const writers, rounds = 4, 50
	stop := make(chan struct{})
	var readers, all sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if s := store.Resolve(key); s.InlineSendMax != 4096 && s.InlineSendMax != 1024+s.DDPMinChunk {
					t.Errorf("half a change: %+v", s)
					return
				}
			}
		})
	}
	wins := make([]int, writers)
	for w := range writers {
		all.Go(func() {
			for round := range rounds {
				at := store.Revision()
				n := round*writers + w // a change that changes nothing is no revision
				c := change(t, "global", live.DDPMinChunk, n, live.InlineSendMax, 1024+n)
				c.Expected = &at
				r, err := store.Set(c, desired.Options{})
				var stale *settings.StaleError
				switch {
				case err == nil && r.Revision == at+1:
					wins[w]++
				case !errors.As(err, &stale):
					t.Errorf("revision %d after %d, %v", r.Revision, at, err)
				}
			}
		})
	}
	all.Wait()
	close(stop)
	readers.Wait()
	won := 0
	for _, n := range wins {
		won += n
	}
	if uint32(won) != store.Revision() || plane.Applied() != won || won == 0 {
		t.Errorf("%v changes were made, revision %d, applied %d times", wins, store.Revision(), plane.Applied())
	}
	last := plane.Connections()
	if !slices.ContainsFunc(last, func(c dataplane.ConnInfo) bool { return *c.Settings == *store.Resolve(c.ConnKey) }) {
		t.Errorf("connections don't have the last settings")
	}
}

package watch_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keeper notes what it is told.
type keeper struct {
	mu         sync.Mutex
	ended      []string
	reconciled int
}

func (k *keeper) Ended(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = append(k.ended, id)
}

func (k *keeper) Reconcile() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reconciled++
}

// run tests a hub that is up and has subscribed.
func run(t *testing.T, queue int, test func(*testing.T, *watch.Hub, *planetest.Plane, *keeper)) {
	synctest.Test(t, func(t *testing.T) {
		plane, k := &planetest.Plane{}, &keeper{}
		hub := watch.NewHub(plane, k, slog.New(slog.NewTextHandler(io.Discard, nil)), queue)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go hub.Run(ctx)
		synctest.Wait()
		test(t, hub, plane, k)
	})
}

func open(t *testing.T, hub *watch.Hub) *watch.Watcher {
	t.Helper()
	w, err := hub.Watch()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func isDone(w *watch.Watcher) bool {
	select {
	case <-w.Done():
		return true
	default:
		return false
	}
}

func TestEventsReachEveryWatcher(t *testing.T) {
	run(t, 8, func(t *testing.T, hub *watch.Hub, plane *planetest.Plane, k *keeper) {
		a, b := open(t, hub), open(t, hub)
		plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001"})
		plane.Disconnect("1", "gone")
		synctest.Wait()
		for _, w := range []*watch.Watcher{a, b} {
			up, down := <-w.Events(), <-w.Events()
			if up.Type != dataplane.ConnUp || down.Type != dataplane.ConnDown || down.Conn.ID != "1" || down.Reason != "gone" {
				t.Errorf("got %+v and %+v", up, down)
			}
		}
		if len(k.ended) != 1 || k.ended[0] != "1" {
			t.Errorf("the keeper was told of %v", k.ended)
		}
	})
}

func TestSlowWatcherIsDroppedAlone(t *testing.T) {
	run(t, 4, func(t *testing.T, hub *watch.Hub, plane *planetest.Plane, _ *keeper) {
		slow, fast := open(t, hub), open(t, hub)
		for i := range 10 {
			plane.Connect(planetest.Peer{ID: strconv.Itoa(i), Listener: "nfs", Address: "192.0.2.7:1001"})
			if e := <-fast.Events(); e.Conn.ID != strconv.Itoa(i) {
				t.Fatalf("event %d is of connection %s", i, e.Conn.ID)
			}
			synctest.Wait()
			if got, want := isDone(slow), i >= 4; got != want {
				t.Fatalf("after %d events: dropped %t", i+1, got)
			}
		}
		if !errors.Is(slow.Err(), watch.ErrSlow) || isDone(fast) {
			t.Errorf("slow ended with %v, fast is done: %t", slow.Err(), isDone(fast))
		}
	})
}

func TestHubThatFellBehindBeginsAgain(t *testing.T) {
	run(t, 4, func(t *testing.T, hub *watch.Hub, plane *planetest.Plane, k *keeper) {
		w := open(t, hub)
		plane.Lose()
		synctest.Wait()
		if !isDone(w) || !errors.Is(w.Err(), watch.ErrSlow) || k.reconciled != 2 {
			t.Errorf("watcher ended with %v, reconciled %d times", w.Err(), k.reconciled)
		}
		again := open(t, hub)
		plane.Connect(planetest.Peer{ID: "7", Listener: "nfs", Address: "192.0.2.7:1001"})
		synctest.Wait()
		if e := <-again.Events(); e.Conn.ID != "7" {
			t.Errorf("got %+v", e)
		}
	})
}

func TestWatchersAreClosedTwice(t *testing.T) {
	run(t, 4, func(t *testing.T, hub *watch.Hub, _ *planetest.Plane, _ *keeper) {
		w := open(t, hub)
		w.Close()
		w.Close()
		if !isDone(w) || w.Err() != nil {
			t.Errorf("closed watcher: done %t, %v", isDone(w), w.Err())
		}
	})
}

func TestWatchersEndWithTheDataplane(t *testing.T) {
	run(t, 4, func(t *testing.T, hub *watch.Hub, plane *planetest.Plane, _ *keeper) {
		w := open(t, hub)
		plane.Shutdown()
		synctest.Wait()
		if !isDone(w) || !errors.Is(w.Err(), watch.ErrShutdown) {
			t.Errorf("watcher ended with %v", w.Err())
		}
		if _, err := hub.Watch(); !errors.Is(err, watch.ErrShutdown) {
			t.Errorf("a watcher afterwards: %v", err)
		}
	})
}

func TestWatchersEndWithTheHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		plane := &planetest.Plane{}
		hub := watch.NewHub(plane, &keeper{}, slog.New(slog.NewTextHandler(io.Discard, nil)), 4)
		w := open(t, hub)
		ctx, cancel := context.WithCancel(t.Context())
		go hub.Run(ctx)
		synctest.Wait()
		cancel()
		synctest.Wait()
		if !isDone(w) || !errors.Is(w.Err(), watch.ErrShutdown) {
			t.Errorf("watcher ended with %v", w.Err())
		}
	})
}

// The data plane is asked for changes only while somebody watches.
func TestChangesComeToWatchersAlone(t *testing.T) {
	run(t, 4, func(t *testing.T, hub *watch.Hub, plane *planetest.Plane, _ *keeper) {
		wanted := func() bool {
			synctest.Wait()
			return plane.WantsChanges()
		}
		if wanted() {
			t.Error("changes are wanted without a watcher")
		}
		a, b := open(t, hub), open(t, hub)
		a.Close()
		if !wanted() {
			t.Error("a watcher gets no changes")
		}
		b.Close()
		if wanted() {
			t.Error("changes are wanted after the last watcher")
		}
		open(t, hub)
		plane.Lose() // which drops it
		if wanted() {
			t.Error("changes are wanted without a watcher, in a second subscription")
		}
		open(t, hub)
		if !wanted() {
			t.Error("a watcher of the second subscription gets no changes")
		}
	})
}

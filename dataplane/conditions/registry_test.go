package conditions

import (
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func nolog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// A condition keeps its time while its reason stays the same. A source removes conditions that
// it no longer reports.
func TestRegistry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		listeners := []Finding{{"nfs", ListenerUp, ""}, {"old", ListenerDraining, ""}}
		r.Ask(func() []Finding { return listeners })
		r.Set(Finding{"", ReloadLoaded, "rdmad.yaml"})
		began := time.Now()
		if l := r.List(); len(l) != 3 || l[0].Name != "nfs" || l[1].Name != "old" || l[2].Kind() != Reload || l.Failed() {
			t.Fatalf("got %v", l)
		}
		time.Sleep(time.Minute)
		listeners = []Finding{{"nfs", ListenerUnreachable, "port 1 is DOWN"}}
		r.Set(Finding{"", ReloadLoaded, "other.yaml"})
		l := r.List()
		if len(l) != 2 {
			t.Fatalf("got %v", l)
		}
		if c := l.Find(Listener, "nfs"); c.Since != began.Add(time.Minute) || c.Status() != Degraded || c.Message != "port 1 is DOWN" || !strings.HasSuffix(c.Remedy(), "listeners remove nfs") {
			t.Errorf("got %+v", c)
		}
		if c := l.Find(Reload, ""); c.Since != began || c.Message != "other.yaml" {
			t.Errorf("got %+v", c)
		}
		if l.Reachable() || !(List{}).Reachable() {
			t.Error("clients are sent to a listener that can't be reached")
		}
		r.Set(Finding{"", AuditUnwritable, "x"})
		if bad := r.List().NotOK(); len(bad) != 2 || bad[0].Status() != Failed || bad[1].Status() != Degraded {
			t.Errorf("got %v", bad)
		}
		r.Remove(Audit, "")
		r.Remove(Reload, "")
		if l := r.List(); len(l) != 1 || l.Failed() {
			t.Errorf("got %v", l)
		}
	})
}

func TestWatch(t *testing.T) {
	r := NewRegistry()
	w := r.Watch()
	changed := func() bool {
		select {
		case <-w.news:
			return true
		default:
			return false
		}
	}
	if !changed() || changed() {
		t.Error("the first change is not that it was made")
	}
	for range 3 {
		r.Set(Finding{"nfs", ListenerUp, ""})
	}
	if !changed() || changed() {
		t.Error("a change is not one")
	}
	r.Remove(Listener, "none")
	if changed() {
		t.Error("nothing changed")
	}
	now := []Finding{{"a", ServiceUp, ""}}
	r.Ask(func() []Finding { return now })
	if r.Refresh(); !changed() {
		t.Error("a source's news is none")
	}
	if r.List(); changed() {
		t.Error("reading is news")
	}
	now = nil
	if r.Refresh(); !changed() {
		t.Error("a thing that is gone is no news")
	}
	w.Close()
	if r.Remove(Listener, "nfs"); changed() {
		t.Error("a closed watcher learns of a change")
	}
}

// A watcher notices a change of a source within a second.
func TestNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		began := time.Now()
		r.Ask(func() []Finding {
			if time.Since(began) < 90*time.Second {
				return nil
			}
			return []Finding{{"nfs", ListenerUnreachable, "gone"}}
		})
		w := r.Watch()
		defer w.Close()
		done := make(chan struct{})
		if !w.Next(done) {
			t.Error("the first change is not that it was made")
		}
		if !w.Next(done) || time.Since(began) > 91*time.Second || !r.List().Find(Listener, "nfs").Since.Equal(time.Now()) {
			t.Errorf("after %v: %v", time.Since(began), r.List())
		}
		close(done)
		if w.Next(done) {
			t.Error("news from nowhere")
		}
	})
}

// Many watchers that began at different moments call the sources about as often as one.
func TestManyWatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRegistry()
		var looks atomic.Int64
		r.Ask(func() []Finding { looks.Add(1); return nil })
		done := make(chan struct{})
		for range 100 {
			go func() {
				w := r.Watch()
				defer w.Close()
				for w.Next(done) { // only its ticks matter
				}
			}()
			time.Sleep(lookEvery / 100)
		}
		before := looks.Load()
		time.Sleep(10 * lookEvery)
		if n := looks.Load() - before; n > 21 { // half an interval apart, with both ends
			t.Errorf("%d looks in ten times the interval", n)
		}
		close(done)
	})
}

func TestBounds(t *testing.T) {
	r := NewRegistry()
	for i := range MaxConditions + 10 {
		r.Set(Finding{fmt.Sprint(i), ServiceUp, strings.Repeat("ü", 1000)})
	}
	r.Set(Finding{"5", ServiceFailed, ""})
	l := r.List()
	if len(l) != MaxConditions || !l.Failed() {
		t.Errorf("%d conditions", len(l))
	}
	if n := len(l[0].Message); n > maxMessage+3 {
		t.Errorf("a message of %d bytes", n)
	}
}

// Each reason is in the catalogue once, and says what to do unless it is OK.
func TestReasons(t *testing.T) {
	seen := make(map[string]bool)
	good := make(map[Kind]bool)
	for _, r := range Reasons {
		if k := string(r.Kind) + "/" + r.Name; seen[k] {
			t.Errorf("%s is there twice", k)
		} else {
			seen[k] = true
		}
		if r.Status == OK {
			good[r.Kind] = true
		}
		if (r.Status == OK) != (r.Remedy == "") || !strings.HasSuffix(r.Meaning, ".") || strings.HasSuffix(r.Remedy, ".") {
			t.Errorf("%+v", r)
		}
		if r.Name == "" || strings.ToUpper(r.Name[:1]) != r.Name[:1] || strings.ContainsAny(r.Name, " -_") {
			t.Errorf("%q is no word in CamelCase", r.Name)
		}
		if !good[r.Kind] {
			t.Errorf("kind %s does not begin with OK", r.Kind)
		}
	}
}

package audit

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestManyRefused: a client that is refused again and again does not push what others did out of the log. The log has
// its first requests, and the number of the others. It has all that rdmad does by itself.
func TestManyRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		l := open(t, config(dir))
		made(t, l, 1)
		for range 10_000 { // in 70 seconds
			l.Refused(Entry{Actor: "eve", Role: "viewer", Action: "Set", Request: "{}", Outcome: "PERMISSION_DENIED", Reason: "no"})
			time.Sleep(7 * time.Millisecond)
		}
		for range 20 {
			l.Refused(Entry{Actor: "rdmad", Action: "reload", Outcome: OK})
		}
		l.Close()
		entries, _, err := open(t, config(dir)).List(t.Context(), Query{Limit: 20_000})
		if err != nil {
			t.Fatal(err)
		}
		n, counts := make(map[string]int), []string(nil)
		for _, e := range slices.Backward(entries) {
			n[e.Actor]++
			if e.Actor == "eve" && e.Request == "" {
				counts = append(counts, strings.Join([]string{e.Role, e.Action, e.Outcome, e.Reason}, " "))
			}
		}
		const of = "viewer Set PERMISSION_DENIED refused "
		want := []string{of + "8562 times since 2000-01-01T00:00:00Z; the last time: no", of + "1418 times since 2000-01-01T00:01:00Z; the last time: no"}
		if n["ada"] != 1 || n["eve"] != 22 || n["rdmad"] != 20 || !slices.Equal(counts, want) {
			t.Errorf("%v entries, counts\n%s", n, strings.Join(counts, "\n"))
		}
		verify(t, dir, 1, 44)
	})
}

// TestManyRefusers: the number of clients that are counted has a bound. Those beyond are counted together.
func TestManyRefusers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := open(t, config(t.TempDir()))
		for i := range maxRefusers + 20 {
			l.Refused(Entry{Actor: fmt.Sprint("eve ", i), Outcome: "PERMISSION_DENIED", Reason: "no"})
		}
		counted := func() int {
			l.mu.Lock()
			defer l.mu.Unlock()
			return len(l.refused)
		}
		if n := counted(); n != maxRefusers+1 {
			t.Errorf("%d clients are counted", n)
		}
		time.Sleep(refusedTime + time.Second)
		if n := counted(); n != 0 {
			t.Errorf("%d clients are counted for ever", n)
		}
		entries, _, err := l.List(t.Context(), Query{Limit: 200})
		if err != nil || len(entries) != maxRefusers+refusedMost+1 {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		if e := entries[0]; e.Reason != "refused 10 times since 2000-01-01T00:00:00Z, also of other clients; the last time: no" {
			t.Errorf("%+v", e)
		}
	})
}

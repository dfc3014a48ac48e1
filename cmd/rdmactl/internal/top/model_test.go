package top

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/types/known/timestamppb"
)

func TestSorting(t *testing.T) {
	v := playing(t, 100, 24)
	for _, c := range []struct{ column, want, reversed string }{
		{"id", "1 2 10", "10 2 1"},
		{"listener", "2 1 10", "1 10 2"},
		{"peer", "1 10 2", "2 10 1"},
		{"calls", "10 1 2", "2 1 10"},
		{"in", "10 1 2", "2 1 10"},
		{"out", "1 10 2", "2 10 1"},
		{"errors", "1 2 10", "2 10 1"},
		{"busy", "10 2 1", "1 2 10"},
	} {
		for Columns[v.sort] != c.column {
			v.keys("right")
		}
		if got := v.order(); got != c.want {
			t.Errorf("by %s: %s, want %s", c.column, got, c.want)
		}
		v.keys("r")
		if got := v.order(); got != c.reversed {
			t.Errorf("by %s, reversed: %s, want %s", c.column, got, c.reversed)
		}
		v.keys("r")
	}
	for range columns {
		v.keys("<")
	}
	if Columns[v.sort] != "busy" {
		t.Errorf("once round ends at %s", Columns[v.sort])
	}
}

func TestCursorStaysWithItsConnection(t *testing.T) {
	v := playing(t, 100, 24)
	if v.keys("r"); v.current() != "2" {
		t.Errorf("a cursor that was not moved is at %s, not in the first row", v.current())
	}
	v.keys("r", "down")
	if v.current() != "1" {
		t.Fatalf("at %s", v.current())
	}
	for range columns {
		v.keys("right", "r")
		if v.current() != "1" {
			t.Errorf("at %s", v.current())
		}
	}
	s := moment(20)
	s.conns = slices.Delete(s.conns, 0, 1)
	v.send(s)
	if v.current() == "1" || v.order() == "" {
		t.Errorf("at %s of %s", v.current(), v.order())
	}
	s.conns = nil
	v.send(s)
	v.keys("down", "enter", "d", "s", "esc")
	v.sees("0 connections", "No connections")
}

// TestRestart: a connection of the rdmad after a restart has nothing of the one with its id before.
func TestRestart(t *testing.T) {
	v := playing(t, 100, 24)
	s := moment(20)
	s.sample, s.conns = nil, s.conns[:1]
	s.status.Started = timestamppb.New(s.status.GetStarted().AsTime().Add(time.Hour))
	v.send(s)
	if r := v.rows[s.conns[0].GetId()]; r.rates != nil || len(r.calls)+len(r.bytes) > 0 {
		t.Errorf("%v, calls %v, bytes %v", r.rates, r.calls, r.bytes)
	}
	v.sees("first sample to come")
}

// TestRestartEndsQuestions: what was open about a connection is not about that with its id after a restart.
func TestRestartEndsQuestions(t *testing.T) {
	for _, open := range [][]string{
		{"d"}, {"x"}, {"enter"}, {"enter", "d"}, {"s", "enter", "2048", "enter"}, {"space", "d"}, {"space", "enter"}, {"space", "s", "enter", "2048", "enter"},
	} {
		v := playing(t, 100, 24)
		v.keys(open...)
		v.send(moment(12)) // which a pause holds
		v.control.asked = nil
		v.send(offline{errors.New("connection refused"), born}) // it may be back before a snapshot says so
		v.keys("y")
		if v.control.asked != nil {
			t.Errorf("%v: asked for %v while rdmad is away", open, v.control.asked)
			v.control.asked = nil
		}
		s := moment(20)
		s.status.Started = timestamppb.New(s.status.GetStarted().AsTime().Add(time.Hour))
		formed := v.form != nil
		v.send(s)
		v.keys("y")
		if formed { // what the user types on
			v.keys("d", "y", "tab", "enter")
			v.sees("rdmad has restarted")
			if screen := v.screen().String(); strings.Contains(screen, "tab scope") {
				t.Errorf("%v: keys that have no effect in:\n%s", open, screen)
			}
		}
		if v.control.asked != nil || v.pane != nil || v.form != nil && v.form.at() != "global" {
			t.Errorf("%v: asked for %v, pane %v, form %v", open, v.control.asked, v.pane, v.form)
		}
	}
}

func TestFilter(t *testing.T) {
	v := playing(t, 100, 24)
	v.keys("/", "ARCH")
	if v.order() != "2" {
		t.Errorf("shows %s", v.order())
	}
	v.sees("Filter: ARCH")
	v.keys("backspace", "backspace", "backspace", "backspace", "192.", "enter")
	if v.order() != "1" {
		t.Errorf("shows %s", v.order())
	}
	v.sees(`1 of 3 connections with "192."`)
	v.keys("esc")
	if v.order() != "10 1 2" {
		t.Errorf("shows %s", v.order())
	}
	v.keys("/")
	v.send(tea.PasteMsg{Content: "nothing\x1b\n"})
	v.keys("enter")
	v.sees(`None of 3 connections has "nothing"; esc shows all`)
	v.keys("/", "esc")
	if v.order() != "10 1 2" {
		t.Errorf("shows %s", v.order())
	}
}

func TestScrolling(t *testing.T) {
	v := view(t, 80, 10)
	s := moment(0)
	s.conns, s.sample.Connections = nil, nil
	for i := range 100 {
		c := moment(0).conns[0]
		c.Id = strings.Repeat("1", 1) + string(rune('0'+i/10)) + string(rune('0'+i%10))
		s.conns = append(s.conns, c)
	}
	v.send(s)
	for _, c := range []struct{ key, id string }{{"end", "199"}, {"up", "198"}, {"home", "100"}, {"pgdown", "104"}, {"k", "103"}, {"G", "199"}, {"j", "199"}, {"g", "100"}} {
		v.keys(c.key)
		if v.current() != c.id {
			t.Errorf("%s: at %s, want %s", c.key, v.current(), c.id)
		}
		v.sees("▸" + c.id)
	}
}

func TestPauseLosesNothing(t *testing.T) {
	v, going := playing(t, 100, 24), playing(t, 100, 24)
	before := v.screen().Line(7)
	v.keys("space")
	for n := 12; n < 20; n++ {
		v.send(moment(n))
		going.send(moment(n))
	}
	v.sees("paused, 8 samples behind", before)
	v.keys("p")
	if v.screen().String() != going.screen().String() {
		t.Errorf("after the pause:\n%s\nwithout:\n%s", v.screen(), going.screen())
	}
	v.keys("p")
	for n := range 2 * remembered {
		v.send(moment(n))
	}
	if len(v.held) != remembered {
		t.Errorf("%d samples are held", len(v.held))
	}
}

func TestPaneFollowsItsConnection(t *testing.T) {
	v := playing(t, 80, 24)
	v.keys("down", "enter")
	v.send(moment(12))
	if got := strings.Join(v.control.asked, ", "); got != "detail 1, detail 1" {
		t.Errorf("asked %s", got)
	}
	top := v.screen().Line(7)
	v.keys("end")
	v.sees("Settings in force", "credits.max")
	if v.keys("home"); v.screen().Line(7) != top {
		t.Errorf("line 7 is %q, was %q", v.screen().Line(7), top)
	}
	v.control.down["1"] = true
	s := moment(13)
	s.conns = s.conns[1:]
	v.send(s)
	v.sees("connection is down", "Connection 1", "calls/s")
	v.send(detail{id: "2", err: errors.New("late answer")})
	v.keys("esc")
	v.sees("2 connections", "CALLS/S▾")
}

func TestEnding(t *testing.T) {
	v := playing(t, 100, 24)
	v.keys("d", "n", "x", "esc")
	if len(v.control.asked) != 0 {
		t.Errorf("asked %s", v.control.asked)
	}
	v.keys("d")
	v.sees("Drain connection 10? Calls in flight finish, then it is disconnected. y/n")
	v.keys("y")
	v.sees("Connection 10: drain done.")
	v.control.down["10"] = true
	v.keys("x")
	v.sees("Close connection 10? Answers to calls in flight are lost. y/n")
	v.keys("y")
	v.sees("Connection 10: close failed: connection is down")
	v.keys("down")
	v.sees("? help")
	if got := strings.Join(v.control.asked, ", "); got != "drain 10, close 10" {
		t.Errorf("asked %s", got)
	}
}

func TestQuit(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"enter", "q"}} {
		v := playing(t, 80, 24)
		if v.keys(keys...); !v.quit {
			t.Errorf("%v does not quit", keys)
		}
	}
	for _, keys := range [][]string{{"q"}, {"enter"}, {"s"}, {"s", "enter"}, {"/"}, {"?"}, {"d"}} {
		v := playing(t, 80, 24)
		v.keys(keys...)
		if v.send(tea.KeyPressMsg{Code: 'c', Mod: tea.ModCtrl}); !v.quit {
			t.Errorf("ctrl+c does not quit after %v", keys)
		}
	}
	v := playing(t, 80, 24)
	if v.keys("/", "q", "enter", "s", "q"); v.quit {
		t.Error("a q that is typed quits")
	}
}

package top

import (
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

func TestFormAsksInTurn(t *testing.T) {
	v := playing(t, 100, 24)
	v.keys("s", "send", "enter", "2048", "enter", "enter")
	v.sees("inline.send_max=2048 at connection/10  done: revision 6", "APPLIED 1", "UNSUPPORTED 1")
	want := "settings connection/10, about inline.send_max connection/10, set connection/10 dry=true revision=0, set connection/10 dry=false revision=5"
	if got := strings.Join(v.control.asked, ", "); got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
	v.keys("enter")
	v.sees("CALLS/S▾")
}

func TestFormScopes(t *testing.T) {
	v := playing(t, 100, 24)
	v.keys("s", "tab", "tab", "tab", "tab", "esc")
	want := "settings connection/10, settings listener/nfs, settings peer/198.51.100.23, settings global, settings connection/10"
	if got := strings.Join(v.control.asked, ", "); got != want {
		t.Errorf("asked\n%s, want\n%s", got, want)
	}
	s := moment(0)
	s.conns = nil
	v.send(s)
	v.control.asked = nil
	v.keys("s", "tab")
	if got := strings.Join(v.control.asked, ", "); got != "settings global, settings global" {
		t.Errorf("without connections asked %s", got)
	}
}

func TestFormErrorsInPlace(t *testing.T) {
	v := playing(t, 100, 24)
	v.keys("s", "enter", "enter", "x", "enter")
	v.sees("inline.send_max=x: must be a number", "new value x")
	v.control.refuse = errors.New("inline.send_max: must be from 1024 to 262144")
	v.keys("backspace", "2048", "enter")
	v.sees("must be from 1024 to 262144", "new value 2048")
	v.control.refuse = nil
	v.keys("enter")
	v.control.refuse = errors.New("another revision is current")
	v.keys("enter")
	v.sees("another revision is current", "new value 2048")
	v.control.refuse = nil
	v.keys("enter", "enter")
	v.sees("done: revision 6")
}

func TestFormGoesBack(t *testing.T) {
	v := playing(t, 100, 24)
	v.keys("s", "enter", "2048", "enter")
	v.sees("dry run, still revision 5")
	v.keys("esc")
	v.sees("new value 2048")
	v.keys("esc")
	v.sees("Change a setting")
	v.keys("zzz")
	v.sees("No setting has that in its name")
	v.keys("enter", "backspace", "backspace", "backspace", "down", "down", "enter")
	v.sees("remote_invalidation.use at connection/10")
	v.keys("tab", "tab")
	v.sees("new value off")
	v.keys("tab")
	v.sees("new value on")
	v.keys("esc", "esc")
	v.sees("CALLS/S▾")
	for _, a := range v.control.asked {
		if strings.Contains(a, "dry=false") {
			t.Errorf("%s without being told to", a)
		}
	}
}

// An answer that comes when nobody waits for it any more changes nothing.
func TestLateAnswers(t *testing.T) {
	v := playing(t, 100, 24)
	_, late := v.Update(key('s'))
	v.keys("esc", "s", "tab")
	v.send(late())
	v.sees(" listener/nfs ")
	values := v.form.values
	v.send(formAnswer{asked: v.asked - 1, err: errors.New("late")})
	if v.form.err != "" || len(v.form.values) != len(values) {
		t.Errorf("a late answer was taken: %q", v.form.err)
	}
	v.keys("esc")
	v.send(formAnswer{asked: v.asked, err: errors.New("late")})
	v.sees("CALLS/S▾")
}

// A dry run that comes when another value is typed already, or none any more,
// is not shown: what enter sets then is what was tried.
func TestLateDryRun(t *testing.T) {
	v := playing(t, 100, 24)
	v.keys("s", "enter", "2048")
	_, late := v.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	v.keys("0")
	v.send(late())
	v.sees("new value 20480")
	_, late = v.Update(tea.KeyPressMsg{Code: tea.KeyEnter})
	v.keys("esc")
	v.send(late())
	v.sees("Change a setting")
	v.keys("enter", "2048", "enter")
	v.sees("dry run, still revision 5")
	for _, a := range v.control.asked {
		if strings.Contains(a, "dry=false") {
			t.Errorf("%s without being told to", a)
		}
	}
}

// A form opened from a pane is about the pane's connection, also when that
// has ended; and the pane shows what the form changed.
func TestFormFromPane(t *testing.T) {
	v := playing(t, 100, 50)
	v.keys("down", "enter", "s")
	v.sees("connection/1 ", "listener/nfs", "peer/192.0.2.7")
	v.control.value = "2048"
	v.keys("enter", "2048", "enter", "enter", "enter")
	v.sees("Connection 1", "2048")
}

func key(r rune) tea.KeyPressMsg { return tea.KeyPressMsg{Code: r, Text: string(r)} }

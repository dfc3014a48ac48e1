package top

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"charm.land/lipgloss/v2"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func TestTable(t *testing.T) {
	time.Local = time.UTC
	for _, size := range [][2]int{{120, 30}, {100, 30}, {80, 24}, {60, 12}, {40, 8}, {20, 3}} {
		name := fmt.Sprintf("table-%dx%d", size[0], size[1])
		t.Run(name, func(t *testing.T) { playing(t, size[0], size[1]).golden(name) })
	}
}

func TestPane(t *testing.T) {
	for _, size := range [][2]int{{100, 44}, {80, 24}} {
		name := fmt.Sprintf("pane-%dx%d", size[0], size[1])
		t.Run(name, func(t *testing.T) {
			v := playing(t, size[0], size[1])
			v.keys("down", "enter")
			v.golden(name)
		})
	}
}

func TestFormViews(t *testing.T) {
	v := playing(t, 80, 24)
	v.keys("s")
	v.golden("form-choosing")
	v.keys("enter")
	v.golden("form-entering")
	v.keys("2048", "enter")
	v.golden("form-looking")
	v.keys("enter")
	v.golden("form-finished")
}

func TestHelp(t *testing.T) {
	for _, width := range []int{80, 40} {
		v := playing(t, width, 24)
		v.keys("?")
		v.golden(fmt.Sprintf("help-%d", width))
		v.keys("end")
		v.sees("ERR", "since the start")
		v.keys("esc")
		v.sees("CALLS/S▾")
	}
}

// Every size must do, down to one place, whatever is shown.
func TestAnySize(t *testing.T) {
	open := map[string][]string{
		"table": nil, "help": {"?"}, "pane": {"enter"}, "form": {"s"}, "value": {"s", "enter"}, "dry run": {"s", "enter", "2048", "enter"},
		"filter": {"/", "nfs"}, "question": {"d"}, "none": {"/", "xyzzy", "enter"},
	}
	for what, keys := range open {
		v := playing(t, 80, 24)
		v.keys(keys...)
		for _, width := range []int{1, 2, 7, 20, 41, 79, 80, 99, 100, 130} {
			for _, height := range []int{1, 2, 5, 9, 24} {
				v.send(tea.WindowSizeMsg{Width: width, Height: height})
				lines := strings.Split(v.View().Content, "\n")
				if len(lines) != height {
					t.Fatalf("%s: %d lines in a terminal of %d", what, len(lines), height)
				}
				for _, l := range lines {
					if w := lipgloss.Width(l); w > width {
						t.Fatalf("%s: %d columns in a terminal of %d: %q", what, w, width, l)
					}
				}
			}
		}
	}
}

func TestAwayAndBack(t *testing.T) {
	v := playing(t, 80, 24)
	since := time.Date(2026, 11, 20, 3, 4, 5, 0, time.Local)
	v.send(offline{errors.New("connection refused"), since})
	v.send(offline{errors.New("connection refused"), since.Add(time.Minute)})
	v.sees("rdmad is away since 03:04:05, trying again: connection refused", "192.0.2.7:1001")
	v.send(moment(13))
	v.sees("rdmad v1.2.3", "192.0.2.7:1001")
}

func TestBeforeTheFirstSample(t *testing.T) {
	v := view(t, 80, 24)
	s := moment(0)
	s.sample = nil
	v.send(s)
	v.sees("3 connections  first sample to come", "192.0.2.7:1001")
}

func TestUnconfirmedRevision(t *testing.T) {
	v := view(t, 100, 24)
	s := moment(0)
	s.status.UnconfirmedRevision = 6
	s.status.ConfirmDeadline = s.status.GetStarted()
	s.status.ConfirmDeadline.Seconds += 7380 + 42
	s.status.Started = moment(0).status.GetStarted()
	v.send(s)
	v.sees("revision 5  6 rolled back in 42s unless confirmed")
}

func TestTextsCannotSteerTheTerminal(t *testing.T) {
	v := view(t, 100, 24)
	s := moment(0)
	s.conns[0].Peer = "\x1b[2Jevil\n"
	s.sample.Listeners[0].Name = "\x1b]0;x\x07"
	s.status.Version = "\x1bc"
	v.send(s)
	v.sees("\ufffd[2Jevil\ufffd", "rdmad \ufffdc")
	v.keys("home", "down", "down", "s")
	v.sees("peer/2001:db8::8")
}

func TestMoreListenersThanRoom(t *testing.T) {
	v := view(t, 80, 16)
	s := moment(0)
	for i := range 5 {
		s.sample.Listeners = append(s.sample.Listeners, &rdmadv1.ListenerSample{Name: fmt.Sprintf("more%d", i)})
	}
	v.send(s)
	v.sees("backup", "and 6 more listeners")
}

// The row at the cursor stands out without colours too.
func TestCursorStandsOut(t *testing.T) {
	v := playing(t, 80, 24)
	s := v.screen()
	for y := range 24 {
		marked := strings.HasPrefix(s.Line(y), "▸")
		if reversed := s.At(5, y).Reverse; marked != reversed {
			t.Errorf("line %d: marked %v, reversed %v: %s", y, marked, reversed, s.Line(y))
		}
		if marked && !strings.Contains(s.Line(y), "198.51.100.23") {
			t.Errorf("the cursor is at %s", s.Line(y))
		}
	}
}

func TestFormats(t *testing.T) {
	for _, c := range [][2]string{
		{rate(0), "0"}, {rate(0.04), "0.0"}, {rate(9.94), "9.9"}, {rate(9.96), "10"}, {rate(99999), "99999"}, {rate(100000), "100k"}, {rate(2.5e6), "2.5M"},
		{megabytes(0), "0"}, {megabytes(12345), "0.01"}, {megabytes(12.34e6), "12.3"}, {megabytes(123.4e6), "123"},
		{size(0), "0 B"}, {size(1023), "1023 B"}, {size(1024), "1 KiB"}, {size(1536), "1.5 KiB"}, {size(1 << 40), "1 TiB"}, {size(1 << 52), "4096 TiB"},
		{micros(0), "0 us"}, {micros(0.44), "0.4 us"}, {micros(85), "85 us"}, {micros(1234), "1.2 ms"}, {micros(2.5e6), "2.5 s"},
		{span(59 * time.Second), "59s"}, {span(3599 * time.Second), "59m59s"}, {span(2*time.Hour + 3*time.Minute), "2h03m"}, {span(75 * time.Hour), "3d03h"},
		{plural(1, "x"), "1 x"}, {plural(2, "x"), "2 xs"},
	} {
		if c[0] != c[1] {
			t.Errorf("got %q, want %q", c[0], c[1])
		}
	}
}

func TestSpark(t *testing.T) {
	var h history
	for i := range 130 {
		h.add(float64(i % 8))
	}
	if len(h) != remembered {
		t.Errorf("%d values remembered", len(h))
	}
	var endless history // as a node may report it
	endless.add(math.Inf(1))
	endless.add(1)
	for _, c := range []struct {
		h     history
		width int
		want  string
	}{
		{history{0, 1, 2, 3, 4, 5, 6, 7}, 8, "▁▂▃▄▅▆▇█"},
		{history{0, 1, 2, 3, 4, 5, 6, 7}, 3, "▆▇█"},
		{history{7}, 3, "  █"},
		{history{0, 0}, 2, "▁▁"},
		{nil, 2, "  "},
		{endless, 2, "█▁"},
	} {
		if got := c.h.spark(c.width); got != c.want {
			t.Errorf("%v in %d: %q, want %q", c.h, c.width, got, c.want)
		}
	}
}

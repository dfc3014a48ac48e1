package output

import (
	"strings"
	"testing"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

func TestHistogram(t *testing.T) {
	t1 := Histogram("SIZE", "N", []Bar{{"a", 0}, {"b", 80}, {"c", 0}, {"d", 1}, {"e", 3}, {"f", 0}})
	t1.Next = &Table{Columns: make([]Column, 1)}
	t1.Next.Row("after")
	var out strings.Builder
	if err := t1.write(&out, 0, false); err != nil {
		t.Fatal(err)
	}
	want := "SIZE   N\n" +
		"   b  80  " + strings.Repeat("█", 40) + "\n" +
		"   c   0\n" +
		"   d   1  ▌\n" +
		"   e   3  █▌\n" +
		"\nafter\n"
	if out.String() != want {
		t.Errorf("got\n%s, want\n%s", out.String(), want)
	}
	if b := terminal.Bar(1, 1e9, barWidth); b != "▏" {
		t.Errorf("one of many is %q", b)
	}
	out.Reset()
	if err := Histogram("SIZE", "N", []Bar{{"a", 0}}).write(&out, 0, false); err != nil || out.String() != "SIZE  N\n" {
		t.Errorf("nothing at all: %q, %v", out.String(), err)
	}
}

func TestProgressLine(t *testing.T) {
	for done, want := range map[float64]string{
		-1: "[....................] x", 0.5: "[##########..........] x", 1: "[####################] x", 7: "[####################] x",
	} {
		if got := progressLine(done, "x"); got != want {
			t.Errorf("%v: %q, want %q", done, got, want)
		}
	}
}

func TestProgressOnTerminalsOnly(t *testing.T) {
	var out strings.Builder
	p := NewProgress(&out)
	p.Draw(0.5, "x")
	p.End()
	if p.Shown() || out.Len() != 0 {
		t.Errorf("wrote %q", out.String())
	}
	for term, wants := range map[string]map[uint16]string{
		// One line, however narrow the terminal is.
		"xterm": {80: eraseLine + "[##########..........] a\ufffdb" + eraseLine, 12: eraseLine + "[#########…" + eraseLine},
		"dumb":  {80: ""},
	} {
		t.Setenv("TERM", term)
		for columns, want := range wants {
			screen, program := openTerminal(t, columns)
			p := NewProgress(program)
			p.Draw(0.5, "a\x1bb")
			p.End()
			p.End()
			if seen := allShown(t, screen, program); seen != want {
				t.Errorf("%s, %d columns: %q, want %q", term, columns, seen, want)
			}
		}
	}
}

func TestValue(t *testing.T) {
	v := struct {
		Name  string  `json:"name"`
		Count float64 `json:"count"`
		Deep  struct {
			Few []int `json:"few"`
		} `json:"deep"`
	}{Name: "null", Count: 1.5}
	v.Deep.Few = []int{}
	for _, c := range []struct {
		format, want, event string
	}{
		{
			FormatJSON,
			"{\n  \"name\": \"null\",\n  \"count\": 1.5,\n  \"deep\": {\n    \"few\": []\n  }\n}\n",
			`{"name":"null","count":1.5,"deep":{"few":[]}}` + "\n",
		},
		{
			FormatYAML,
			"name: \"null\"\ncount: 1.5\ndeep:\n  few: []\n",
			"---\nname: \"null\"\ncount: 1.5\ndeep:\n  few: []\n",
		},
		{FormatTable, "row\n", "line\n"},
	} {
		var out strings.Builder
		p := NewPrinter(&out, c.format)
		err := p.Answer(v, func() *Table {
			t := &Table{Columns: make([]Column, 1)}
			t.Row("row")
			return t
		})
		if err != nil || out.String() != c.want {
			t.Errorf("%s: %q, %v; want %q", c.format, out.String(), err, c.want)
		}
		out.Reset()
		if err := p.Event(v, func() []Cell { return []Cell{{Text: "line"}} }); err != nil || out.String() != c.event {
			t.Errorf("%s: %q, %v; want %q", c.format, out.String(), err, c.event)
		}
	}
}

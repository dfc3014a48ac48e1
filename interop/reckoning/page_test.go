package reckoning

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "put the figures into docs/roundtrips.md")

const (
	exactFigures = "testdata/loopback.json"
	guestFigures = "testdata/guest.json"
	page         = "../../docs/roundtrips.md"
)

// TestPage checks that docs/roundtrips.md shows the figures that are checked
// in.
func TestPage(t *testing.T) {
	exact, err := Read(exactFigures)
	if err != nil {
		t.Fatal(err)
	}
	guest, err := Read(guestFigures)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	blocks := Blocks(exact, guest)
	want, err := Fill(string(text), blocks)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		for _, name := range []string{"trips", "counts", "guest"} {
			t.Log(blocks[name])
		}
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(text) != want {
		t.Error("docs/roundtrips.md shows other figures: make roundtrips-exact")
	}
}

func TestFill(t *testing.T) {
	got, err := Fill("a\n<!-- x -->\nold\n<!-- end -->\nb\n", map[string]string{"x": "new\n"})
	if want := "a\n<!-- x -->\nnew\n<!-- end -->\nb\n"; got != want || err != nil {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, page := range []string{"", "<!-- x -->\nno end", "<!-- y -->\n<!-- end -->\n"} {
		if _, err := Fill(page, map[string]string{"x": ""}); err == nil {
			t.Errorf("%q has no block x", page)
		}
	}
}

// TestTables checks that a missing measurement gives a gap, not a crash, and
// that sizes are readable.
func TestTables(t *testing.T) {
	r := &Report{Ways: []WayReport{{Name: "w", Credits: 64, ReceiveBytes: 33792, Cells: []Cell{{
		Work: Works()[0], Counts: &Counts{CallSends: 1, RoundTrips: 1}, Latency: []Latency{{0, 0}, {10, 20}},
	}}}}}
	blocks := Blocks(r, r)
	for name, want := range map[string]string{
		"ways":   "| w | none | 64 × 33792 bytes = 2.1 MiB |\n",
		"trips":  "| NULL | 1, 20 ms |\n| ECHO 2 KiB | - |\n",
		"costs":  "| w | 2.1 MiB | - | - | - |",
		"counts": "\n### w\n\n| call |",
		"guest":  "| NULL | 0.0, 20.0 |\n| ECHO 2 KiB |  |\n",
	} {
		if !strings.Contains(blocks[name], want) {
			t.Errorf("%s: %q has no %q", name, blocks[name], want)
		}
	}
	if got := Works()[len(Works())-1].String(); got != "WRITE 1 MiB" {
		t.Error(got)
	}
}

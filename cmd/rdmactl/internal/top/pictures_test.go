package top_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/top"
)

var pictures = flag.String("pictures", "", "`folder` for the documentation's pictures")

// loads are what clients do: bench's arguments after the address.
var loads = []struct{ listener, args string }{
	{"nfs", "--op read --size 1048576 --depth 1"},
	{"nfs", "--op read --size 2048 --depth 2"},
	{"nfs", "--op write --size 65536 --depth 2"},
	{"nfs", "--op null --depth 4"},
	{"nfs", "--op echo --size 512 --depth 1"},
	{"backup", "--op write --size 1048576 --depth 1"},
	{"backup", "--op read --size 16384 --depth 1"},
	{"backup", "--op echo --size 1024 --depth 3"},
}

// steps go from the table through a change of a setting into the pane of the
// connection that has it: each types keys, waits for a text on the screen, whatever
// the width of its columns, and takes a picture if it has a name. The last line of
// the screen is drawn last: pictures wait for it.
var steps = []struct{ keys, shows, picture string }{
	{"", "x close", "top"},
	{"s", "inline.send_max", ""},
	{"\r", "allowed", ""},
	{"2048\r", "APPLIED", ""},
	{"", "make the change", "top-set"},
	{"\r", "done: revision", ""},
	{"\r", "revision 1 ", ""},
	{"\r", "2048 connection/", ""},
	{"", "esc back", "top-connection"},
}

// TestPictures draws the documentation's pictures from a real run. Without -pictures
// it shows that they can be drawn.
func TestPictures(t *testing.T) {
	out, control, samples := *pictures, "127.0.0.1:20050", 20
	if out == "" {
		out, control, samples = t.TempDir(), "127.0.0.1:0", 2
	}
	program := builtRdmad(t) // however long that takes
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	s := &scene{T: t, ctx: ctx, dir: t.TempDir(), program: program}
	s.start(control)
	for _, l := range loads {
		s.load(l.listener, strings.Fields(l.args)...)
	}
	s.top(100, 30, nil, "--interval", "500ms", "--sort", "out", "--color", "always")
	s.until(fullOf(samples), "samples")
	for _, step := range steps {
		s.check(s.Keys(step.keys))
		s.until(func(sc *top.Screen) bool {
			return strings.Contains(strings.Join(strings.Fields(sc.String()), " "), step.shows)
		}, step.shows)
		if step.picture != "" {
			s.Look(func(sc *top.Screen) {
				s.check(os.WriteFile(filepath.Join(out, step.picture+".svg"), []byte(sc.SVG("rdmactl top")), 0o644))
			})
		}
	}
}

// fullOf says whether the totals' first sparkline has had so many samples,
// or has no room for more.
func fullOf(samples int) func(*top.Screen) bool {
	return func(sc *top.Screen) bool {
		line, _, _ := strings.Cut(sc.Line(1), "MB/s")
		graph := strings.IndexFunc(line, func(r rune) bool { return r >= '▁' && r <= '█' })
		return graph >= 0 && utf8.RuneCountInString(strings.TrimSpace(line[graph:])) >= samples
	}
}

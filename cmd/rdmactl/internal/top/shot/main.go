// Command shot makes the pictures of rdmactl top for the documentation, from
// a real run: rdmad, load on several connections, and top in a
// pseudo-terminal of 100 columns and 30 lines.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/top/screen"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/top/stage"
)

// limit is how long the whole may take before it counts as hung.
const limit = 3 * time.Minute

func main() {
	out := flag.String("out", "docs/images", "`folder` to write to")
	samples := flag.Int("samples", 20, "how many samples to wait for")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("not done in %v", limit))
	err := run(ctx, *out, *samples)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "shot:", err)
		os.Exit(1)
	}
}

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

func run(ctx context.Context, out string, samples int) (err error) {
	dir, err := os.MkdirTemp("", "rdmad-shot-")
	if err != nil {
		return err
	}
	defer func() {
		if e := os.RemoveAll(dir); err == nil {
			err = e
		}
	}()
	if err := stage.Build(ctx, dir, "cmd/rdmad", "cmd/rdmactl"); err != nil {
		return err
	}
	daemon, err := stage.Start(ctx, filepath.Join(dir, "rdmad"), dir, "127.0.0.1:20050")
	if err != nil {
		return err
	}
	defer daemon.Kill()
	rdmactl := filepath.Join(dir, "rdmactl")
	for _, l := range loads {
		args := append([]string{"bench", daemon.Listeners[l.listener], "--duration", limit.String()}, strings.Fields(l.args)...)
		load := exec.CommandContext(ctx, rdmactl, args...)
		load.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := load.Start(); err != nil {
			return err
		}
		defer func() {
			_ = load.Process.Kill()
			_ = load.Wait()
		}()
	}
	top := exec.CommandContext(ctx, rdmactl, "top", "--addr", daemon.Control, "--interval", "500ms", "--sort", "out", "--color", "always")
	top.Env = append(os.Environ(), "TERM=xterm-256color")
	return shoot(ctx, top, out, samples)
}

// step types keys, waits for a text on the screen, whatever the width of its
// columns, and takes a picture if it has a name.
type step struct{ keys, shows, picture string }

// steps go from the table through a change of a setting into the pane of the
// connection that has it. The last line of the screen is drawn last: pictures
// wait for it.
var steps = []step{
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

// shoot drives top and draws what it shows.
func shoot(ctx context.Context, top *exec.Cmd, out string, samples int) error {
	t, err := stage.Open(top, 100, 30)
	if err != nil {
		return err
	}
	defer t.Kill()
	if err := t.Until(ctx, fullOf(samples)); err != nil {
		return err
	}
	for _, st := range steps {
		if err := t.Keys(st.keys); err != nil {
			return err
		}
		if err := t.Until(ctx, func(s *screen.Screen) bool {
			return strings.Contains(strings.Join(strings.Fields(s.String()), " "), st.shows)
		}); err != nil {
			return err
		}
		if st.picture == "" {
			continue
		}
		var svg string
		t.Look(func(s *screen.Screen) { svg = s.SVG("rdmactl top") })
		if err := os.WriteFile(filepath.Join(out, st.picture+".svg"), []byte(svg), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fullOf says whether the totals' first sparkline has had so many samples,
// or has no room for more.
func fullOf(samples int) func(*screen.Screen) bool {
	return func(s *screen.Screen) bool {
		line, _, _ := strings.Cut(s.Line(1), "MB/s")
		graph := strings.IndexFunc(line, func(r rune) bool { return r >= '▁' && r <= '█' })
		return graph >= 0 && utf8.RuneCountInString(strings.TrimSpace(line[graph:])) >= samples
	}
}

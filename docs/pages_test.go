// Package docs_test checks the pages: it runs the commands that they print and
// compares the output, follows their links, and looks at their words.
package docs_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "rewrite testdata/not_run.txt")

// serial runs scripts one after the other: they use the same addresses.
type serial struct{ *testing.T }

func (serial) Parallel()     {}
func (serial) Verbose() bool { return testing.Verbose() }
func (s serial) Run(name string, f func(testscript.T)) {
	s.T.Run(name, func(t *testing.T) { f(serial{t}) })
}

type (
	blocksKey struct{}
	daemonKey struct{}
)

// TestPages runs each page's blocks, in their order, as one script. A page has
// one rdmad at a time: a command that starts another one ends the first.
func TestPages(t *testing.T) {
	bin := isolate(t)
	if bin == "" {
		return
	}
	var files []string
	dir, all := t.TempDir(), make(map[string][]block)
	for page, blocks := range pages(t) {
		name := strings.TrimSuffix(strings.ReplaceAll(page, "../", ""), ".md")
		if strings.HasPrefix(page, "../") {
			name = "top-" + name
		}
		var script strings.Builder
		for i, b := range blocks {
			if b.isRun() || b.file() != "" {
				fmt.Fprintf(&script, "block %d\n", i)
			}
		}
		if script.Len() == 0 {
			continue
		}
		all[name] = blocks
		file := filepath.Join(dir, name+".txtar")
		if err := os.WriteFile(file, []byte(script.String()+"end\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	slices.Sort(files)
	testscript.RunT(serial{t}, testscript.Params{
		Files: files,
		Setup: func(env *testscript.Env) error {
			page := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
			env.Values[blocksKey{}] = all[page]
			env.Values[daemonKey{}] = new(*daemon)
			env.Setenv("PATH", bin+":"+os.Getenv("PATH"))
			env.Setenv("TZ", "UTC")
			env.Setenv("GORACE", "atexit_sleep_ms=0")
			return os.Symlink(bin, filepath.Join(env.WorkDir, "bin"))
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"block": runBlock, "end": endDaemon},
	})
}

// runBlock does what a block says.
func runBlock(ts *testscript.TestScript, _ bool, args []string) {
	n, err := strconv.Atoi(args[0])
	ts.Check(err)
	b := ts.Value(blocksKey{}).([]block)[n]
	if name := b.file(); name != "" {
		file := ts.MkAbs(name)
		ts.Check(os.MkdirAll(filepath.Dir(file), 0o755))
		ts.Check(os.WriteFile(file, []byte(b.text), 0o600))
		return
	}
	commands := parse(&b)
	for i, c := range commands {
		want := "0"
		if code, ok := strings.CutPrefix(b.directive, "exit: "); ok && i == len(commands)-1 {
			want = code
		}
		got, code := run(ts, c.command)
		if code != want {
			ts.Fatalf("line %d: %s\nexit code %s, want %s:\n%s", b.line, c.command, code, want, got)
		}
		if b.language != "console" {
			continue
		}
		if !same(got, c.output, b.directive == "numbers vary") {
			ts.Fatalf("line %d: %s\nprints:\n%s\nthe page has:\n%s", b.line, c.command, got, c.output)
		}
	}
}

// serves matches a command that starts rdmad as a daemon.
var serves = regexp.MustCompile(`^(?:\./bin/)?rdmad(?: --| -c |$)`)

// run runs a command, and gives what it prints and its exit code.
func run(ts *testscript.TestScript, command string) (printed, code string) {
	if serves.MatchString(command) {
		endDaemon(ts, false, nil)
		env := []string{"HOME=" + ts.MkAbs("."), "PATH=" + ts.Getenv("PATH"), "TZ=UTC"}
		d, err := startDaemon(ts.MkAbs("."), command, env)
		ts.Check(err)
		*ts.Value(daemonKey{}).(**daemon) = d
		ts.Defer(func() { endDaemon(ts, false, nil) })
		return "", "0"
	}
	code = "0"
	if err := ts.Exec("timeout", strconv.Itoa(int(patience.Seconds())), "bash", "-e", "-c", "exec 2>&1\n"+command); err != nil {
		code = strings.TrimPrefix(err.Error(), "exit status ")
	}
	return ts.ReadFile("stdout"), code
}

func endDaemon(ts *testscript.TestScript, _ bool, _ []string) {
	running := ts.Value(daemonKey{}).(**daemon)
	if d := *running; d != nil {
		*running = nil
		ts.Check(d.stop())
	}
}

// printed is a command of a page, with what the page prints below it.
type printed struct{ command, output string }

// parse splits a block into commands. In a block of sh each line is a command,
// unless it ends within one: then the block is one.
func parse(b *block) []printed {
	if b.language != "console" {
		var out []printed
		rest := ""
		for line := range strings.Lines(b.text) {
			if serves.MatchString(line) {
				if rest != "" {
					out, rest = append(out, printed{command: rest}), ""
				}
				out = append(out, printed{command: strings.TrimSpace(line)})
				continue
			}
			rest += line
		}
		if rest != "" {
			out = append(out, printed{command: rest})
		}
		return out
	}
	var out []printed
	for line := range strings.Lines(b.text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			out = append(out, printed{command: strings.TrimSpace(command)})
		} else if len(out) > 0 {
			out[len(out)-1].output += line
		}
	}
	return out
}

// different are texts that differ between two runs of the same command.
var different = []struct {
	pattern *regexp.Regexp
	text    string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\d(T| )\d\d:\d\d:\d\d(\.\d+)?Z?`), "TIME"},
	{regexp.MustCompile(`\d\d:\d\d:\d\d\.\d+`), "TIME"},
	{regexp.MustCompile(`(127\.0\.0\.1):[3-6]\d{4}\b`), "$1:PORT"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "0xID"},
	{regexp.MustCompile(`-{4,}`), "-"}, // rules of tables
}

var numbers = regexp.MustCompile(`\d+(\.\d+)?`)

// same says whether a command printed what the page has. In the page … stands for
// anything within a line, and for any lines where it stands alone.
func same(got, want string, withoutNumbers bool) bool {
	clean := func(s string) string {
		for _, d := range different {
			s = d.pattern.ReplaceAllString(s, d.text)
		}
		if withoutNumbers {
			s = numbers.ReplaceAllString(s, "N")
		}
		var lines []string
		for line := range strings.Lines(s) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return strings.Trim(strings.Join(lines, "\n"), "\n")
	}
	pattern := regexp.QuoteMeta(clean(want))
	pattern = regexp.MustCompile(`(?m)^…$`).ReplaceAllString(pattern, `(?s:.*)`)
	pattern = strings.ReplaceAll(pattern, "…", ".*")
	return regexp.MustCompile(`\A` + pattern + `\z`).MatchString(clean(got))
}

// TestSame finds differences, and none where there is none.
func TestSame(t *testing.T) {
	for _, c := range []struct {
		got, want string
		numbers   bool
		same      bool
	}{
		{"A  B\n1  2\n", "A B\n1 2\n", false, true},
		{"1", "2", false, false},
		{"1", "2", true, true},
		{"a\nb\nc\n", "a\n…\nc\n", false, true},
		{"a\nb\nc\n", "a\n…\nd\n", false, false},
		{"at 2026-11-20 14:11:42 from 127.0.0.1:54734", "at 2025-01-02 00:00:00 from 127.0.0.1:33333", false, true},
		{"at 127.0.0.1:20049", "at 127.0.0.1:20050", false, false},
		{"more\nlines", "more", false, false},
	} {
		if same(c.got, c.want, c.numbers) != c.same {
			t.Errorf("%q and %q: want same %v", c.got, c.want, c.same)
		}
	}
}

// TestNotRun compares the blocks that are not run with a list, so that none is
// added unseen. Run it with -update after a change, and look at the difference.
func TestNotRun(t *testing.T) {
	var lines []string
	for page, blocks := range pages(t) {
		for _, b := range blocks {
			reason := b.leftOut()
			if reason == "" {
				continue
			}
			if reasons[reason] == "" {
				t.Errorf("%s:%d: %q is no reason: add it to reasons, or use another", page, b.line, reason)
			}
			first, _, _ := strings.Cut(b.text, "\n")
			lines = append(lines, fmt.Sprintf("%s: %s: %s", strings.TrimPrefix(page, "../"), reason, first))
		}
	}
	slices.Sort(lines)
	got := fmt.Sprintf("%d blocks\n%s\n", len(lines), strings.Join(lines, "\n"))
	const list = "testdata/not_run.txt"
	if *update {
		if err := os.WriteFile(list, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("the blocks that are not run have changed: go test ./docs -run TestNotRun -args -update\ngot:\n%s", got)
	}
}

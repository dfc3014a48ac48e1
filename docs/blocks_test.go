package docs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a fenced block of a page. The comment above it, which readers do not
// see, has a directive:
//
//	<!-- not run: REASON -->    a block of commands that the test leaves out
//	<!-- numbers vary -->       its output is compared without numbers
//	<!-- exit: CODE -->         its last command ends with this code
//	<!-- file: NAME -->         the block is written to this file
//
// A comment that begins with a line "<!-- run" has commands that the test runs
// and the reader does not see.
type block struct {
	line      int // of the fence in the page
	language  string
	directive string
	text      string
}

// languages are those that a fence may name. Blocks of the first three are run.
var languages = []string{"sh", "console", hidden, "yaml", "ini", "go", "text"}

const hidden = "hidden"

// reasons are why a block of commands is not run.
var reasons = map[string]string{
	"adapter":  "needs an RDMA adapter",
	"browser":  "needs a terminal or a browser",
	"guest":    "needs a Linux kernel as the client; TestNFS/printed in interop runs the mounts",
	"install":  "installs packages, or needs systemd",
	"machine":  "needs another machine",
	"tree":     "builds or tests the source tree",
	"kernel":   "loads kernel modules, or asks the kernel's rpcbind",
	"openssl":  "needs openssl",
	"captured": "needs a capture that another program wrote",
}

func (b *block) isRun() bool {
	return (b.language == "sh" || b.language == "console" || b.language == hidden) && b.leftOut() == ""
}

// leftOut is the reason why the block is not run.
func (b *block) leftOut() string {
	reason, _ := strings.CutPrefix(b.directive, "not run: ")
	if reason == b.directive {
		return ""
	}
	return reason
}

// file is the name under which the block is written.
func (b *block) file() string {
	name, ok := strings.CutPrefix(b.directive, "file: ")
	if !ok {
		return ""
	}
	return name
}

var (
	directive = regexp.MustCompile(`^<!-- ((?:not run|exit|file): .*|numbers vary) -->$`)
	// indentedCommand is a command in a block without a fence.
	indentedCommand = regexp.MustCompile(`^    (?:[$#] |(?:\./)?(?:bin/)?(?:rdmad|rdmactl|make|go|mount|modprobe|apt|systemctl) )`)
)

// blocksOf finds the blocks of a page.
func blocksOf(text string) ([]block, error) {
	var (
		out  []block
		open *block
		last string // directive of the line before
	)
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSuffix(line, "\n")
		switch {
		case open == nil && line == "<!-- run":
			open = &block{line: n, language: hidden}
		case open != nil && open.language == hidden && line == "-->":
			out, open = append(out, *open), nil
		case open == nil && strings.HasPrefix(line, "```"):
			open = &block{line: n, language: line[3:], directive: last}
			if !slices.Contains(languages, open.language) {
				return nil, fmt.Errorf("line %d: a block of %q: want one of %q", n, open.language, languages)
			}
		case open != nil && open.language != hidden && line == "```":
			out, open = append(out, *open), nil
		case open != nil:
			open.text += line + "\n"
		case indentedCommand.MatchString(line):
			return nil, fmt.Errorf("line %d: a command in an indented block: fence it with ```sh or ```console", n)
		}
		last = ""
		if m := directive.FindStringSubmatch(line); m != nil && open == nil {
			last = m[1]
		}
	}
	if open != nil {
		return nil, fmt.Errorf("line %d: the block does not end", open.line)
	}
	return out, nil
}

// generated are pages that are made from code. The tests of that code check them.
var generated = []string{"api.md", "listeners.md", "settings.md"}

// pages are the README and all pages of this folder that people write, with their
// blocks.
func pages(t *testing.T) map[string][]block {
	t.Helper()
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string][]block)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(generated, name) })
	for _, name := range append(names, "../README.md") {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if out[name], err = blocksOf(string(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	return out
}

// TestBlocks finds the faults that blocksOf must find.
func TestBlocks(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"```\nx\n```\n", "want one of"},
		{"```sh\nx\n", "does not end"},
		{"    $ rdmactl status\n", "fence it"},
		{"    make test\n", "fence it"},
	} {
		if _, err := blocksOf(c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want an error with %q", c.text, err, c.want)
		}
	}
	got, err := blocksOf("<!-- not run: tree -->\n```sh\nmake\n```\n<!-- run\nrdmactl status\n-->\n")
	if err != nil || len(got) != 2 || got[0].leftOut() != "tree" || got[0].isRun() || !got[1].isRun() || got[1].text != "rdmactl status\n" {
		t.Errorf("%+v, %v", got, err)
	}
}

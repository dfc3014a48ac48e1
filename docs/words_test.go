package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// avoided are words that readers stumble over, with what to write.
var avoided = []struct {
	pattern *regexp.Regexp
	write   string
}{
	{regexp.MustCompile(`\btell(s|ing)? of\b`), "report, list"},
	{regexp.MustCompile(`\b(is|are|was|were|be|been) told\b`), "name who announces or reports it"},
	{regexp.MustCompile(`\btold of\b`), "reported"},
	{regexp.MustCompile(`\bof (itself|themselves)\b`), "leave it out, or use its"},
	{regexp.MustCompile(`\bthat which\b`), "the thing's name"},
	{regexp.MustCompile(`\bcome to nothing|came to nothing\b`), "failed"},
	{regexp.MustCompile(`(?m)(?:^|[.;:] )Who(ever)? [a-z]+s? [^?\n]*(?:\n|\.)`), "the subject: a client that, an operator that"},
	{regexp.MustCompile(`\bis none of\b`), "is not one of"},
	{regexp.MustCompile(`\b(makes|make|made) no sense\b`), "is invalid, is malformed"},
	{regexp.MustCompile(`\btaken for (a|an|the|one)\b`), "counts as, is treated as"},
	{regexp.MustCompile(`\bfor want of\b`), "for lack of"},
	{regexp.MustCompile(`\bnobody('s)? (has|answers|handles|sees|makes|asks|is told)\b`), "name what is missing: without a handler, unanswered"},
	{regexp.MustCompile(`\bwhat there (is|are)\b`), "name the things"},
	{regexp.MustCompile(`\bgoes on (draining|ending|polling|serving)\b`), "still drains, continues"},
	{regexp.MustCompile(`\b(goes|go|went) on with\b`), "continues with, keeps"},
	{regexp.MustCompile(`\b(stand|stands|stood) over\b`), "overrides"},
	{regexp.MustCompile(`\b(can't|cannot) be had\b`), "is not available, can't be made"},
}

// programs are the folders whose texts are looked at.
var programs = []string{
	"../cmd", "../controlplane/audit", "../controlplane/auth", "../controlplane/desired", "../controlplane/grpcapi",
	"../dataplane/connector", "../dataplane/forward", "../dataplane/manager", "../dataplane/nfs", "../dataplane/rpcbind", "../dataplane/rpctcp",
}

// TestWords looks for avoided words in the pages that people write, in the comments of
// the API and in the texts that the programs print.
func TestWords(t *testing.T) {
	for _, pattern := range []string{"*.md", "adr/*.md", "../README.md", "../CHANGELOG.md", "../proto/rdmad/v1/*.proto"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if slices.Contains(generated, name) {
				continue
			}
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, fault := range faults(string(text)) {
				t.Errorf("%s: %s", name, fault)
			}
		}
	}
	for _, dir := range programs {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			for _, text := range printedBy(t, name) {
				for _, fault := range faults(text) {
					t.Errorf("%s: %s", name, fault)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// printedBy are the texts of a Go file.
func printedBy(t *testing.T, name string) (out []string) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil {
				out = append(out, s)
			}
		}
		return true
	})
	return out
}

// faults lists the avoided words in a text.
func faults(text string) (out []string) {
	for _, a := range avoided {
		for _, found := range a.pattern.FindAllString(text, -1) {
			out = append(out, strconv.Quote(strings.TrimSpace(found))+": write "+a.write)
		}
	}
	return out
}

// TestWordsRuleBites plants what the rule must find, and what it must not.
func TestWordsRuleBites(t *testing.T) {
	for text, bad := range map[string]bool{
		"It tells of an error.":                             true,
		"The peer is told the size.":                        true,
		"Who polls served few calls at first.":              true,
		"It ends. Whoever asks gets an answer.":             true,
		"a limit of its own; nothing of itself":             true,
		`"xml" is none of table, json, yaml`:                true,
		"the answer makes no sense":                         true,
		"It goes on with what it has.":                      true,
		"Their values stand over the file.":                 true,
		"If the address can't be had, nothing changes.":     true,
		"Who may connect?":                                  false,
		"It uses none of them.":                             false,
		"TIME  WHO  ROLE":                                   false,
		"The peer announces the size; a client that polls.": false,
	} {
		if got := len(faults(text)) > 0; got != bad {
			t.Errorf("%q: a fault %v, want %v", text, got, bad)
		}
	}
}

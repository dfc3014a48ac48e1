package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	anchor  = regexp.MustCompile(`<a name="([^"]+)"`)
	fence   = regexp.MustCompile("(?ms)^```.*?^```$")
	span    = regexp.MustCompile("`[^`\n]*`")
)

// TestLinks follows the links of all pages to files and headings.
func TestLinks(t *testing.T) {
	checked := 0
	for _, pattern := range []string{"../*.md", "*.md", "adr/*.md", "../interop/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			for _, m := range link.FindAllStringSubmatch(prose(t, name), -1) {
				checked++
				if fault := broken(t, name, m[1]); fault != "" {
					t.Errorf("%s: %s: %s", name, m[1], fault)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("found %d links only", checked)
	}
}

// prose is a page without code.
func prose(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return span.ReplaceAllString(fence.ReplaceAllString(string(text), ""), "``")
}

// broken says what is wrong with a link of a page, or "".
func broken(t *testing.T, page, target string) string {
	t.Helper()
	// The generator of api.md links types of packages that the page leaves out.
	if strings.Contains(target, "://") || filepath.Base(page) == "api.md" && strings.HasPrefix(target, "#google-protobuf-") {
		return ""
	}
	file, part, _ := strings.Cut(target, "#")
	if file == "" {
		file = filepath.Base(page)
	}
	file = filepath.Join(filepath.Dir(page), file)
	if _, err := os.Stat(file); err != nil {
		return "there is no such file"
	}
	if part != "" && !hasHeading(t, file, part) {
		return "there is no such heading"
	}
	return ""
}

// hasHeading says whether a page has a heading with this anchor, as GitHub makes
// anchors of headings.
func hasHeading(t *testing.T, file, part string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range anchor.FindAllStringSubmatch(string(text), -1) {
		if m[1] == part {
			return true
		}
	}
	for _, m := range heading.FindAllStringSubmatch(string(text), -1) {
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z':
				return r
			}
			return -1
		}, strings.ToLower(m[1]))
		if slug == part {
			return true
		}
	}
	return false
}

// TestIndex wants every page in the index.
func TestIndex(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob("*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md does not have %s", name)
		}
	}
}

// TestNamedTests wants every test in the tree that a page names.
func TestNamedTests(t *testing.T) {
	named, known := regexp.MustCompile(`\b(?:Test|Fuzz|Benchmark|Example)[A-Z]\w*`), make(map[string]bool)
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return fs.SkipDir // others may write there
		case !strings.HasSuffix(name, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(name)
		for line := range strings.Lines(string(text)) {
			if rest, ok := strings.CutPrefix(line, "func "); ok {
				test, _, _ := strings.Cut(rest, "(")
				known[test] = true
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, pattern := range []string{"../README.md", "../ARCHITECTURE.md", "*.md", "../interop/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range named.FindAllString(string(text), -1) {
				checked++
				if !known[test] {
					t.Errorf("%s: there is no %s", name, test)
				}
			}
		}
	}
	if checked < 100 {
		t.Errorf("found %d names only", checked)
	}
}

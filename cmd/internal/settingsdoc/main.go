// Command settingsdoc generates the sections of docs/settings.md that each describe one
// setting, from the catalogue.
package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/settings"
)

//go:generate go run . ../../../docs/settings.md

// The marks around the generated text.
const (
	begin = "<!-- generated from rpcrdma/settings by make generate -->\n"
	end   = "<!-- end of what is generated -->\n"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: settingsdoc PAGE")
		os.Exit(2)
	}
	if err := rewrite(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, "settingsdoc:", err)
		os.Exit(1)
	}
}

// rewrite updates a page.
func rewrite(name string) error {
	text, err := os.ReadFile(name) //nolint:gosec // a page that go generate names
	if err != nil {
		return err
	}
	page, err := fill(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(page), 0o644) //nolint:gosec // a page for everybody
}

// fill replaces the text between the marks of a page.
func fill(page string) (string, error) {
	head, rest, ok := strings.Cut(page, begin)
	_, tail, closed := strings.Cut(rest, end)
	if !ok || !closed {
		return "", fmt.Errorf("the marks %q and %q are not in it", begin, end)
	}
	return head + begin + sections() + end + tail, nil
}

// sections returns a table of all settings, and a section for each.
func sections() string {
	var out strings.Builder
	out.WriteString("\n| setting | range | default |\n|---|---|---|\n")
	for k := range settings.NumKeys {
		r := k.Row()
		fmt.Fprintf(&out, "| [%s](#%s) | %s | %s |\n", r.Name, strings.NewReplacer(".", "").Replace(r.Name), r.Allowed(), r.Format(r.Default))
	}
	for k := range settings.NumKeys {
		section(&out, k.Row())
	}
	out.WriteString("\n")
	return out.String()
}

func section(out *strings.Builder, r *settings.Row) {
	fmt.Fprintf(out, "\n### %s\n\n%s\n\n    $ rdmactl settings set %s\n\n%s\n\n", r.Name, r.Summary, r.Example, r.Details)
	fmt.Fprintf(out, "- Values: %s. Default: %s.\n", r.Allowed(), r.Format(r.Default))
	fmt.Fprintf(out, "- On connections that are up: %s.\n", r.InForce)
	if names := names(r.Needs); names != "" {
		fmt.Fprintf(out, "- Needs %s.\n", names)
	}
	if names := names(r.AtMost); names != "" {
		fmt.Fprintf(out, "- At most %s.\n", names)
	}
	if r.Spec != "" {
		fmt.Fprintf(out, "- Defined in %s.\n", r.Spec)
	}
}

func names(keys []settings.Key) string {
	all := make([]string, len(keys))
	for i, k := range keys {
		all[i] = "`" + k.String() + "`"
	}
	return strings.Join(all, " and ")
}

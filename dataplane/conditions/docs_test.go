package conditions

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the table of docs/conditions.md")

// The page has the catalogue as its last table.
func TestPage(t *testing.T) {
	const page, heading = "../../docs/conditions.md", "\n## Kinds, reasons and remedies\n\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, table, ok := strings.Cut(string(text), heading)
	if !ok {
		t.Fatalf("%s has no %q", page, heading)
	}
	var want strings.Builder
	want.WriteString("| kind | reason | status | meaning | remedy |\n|---|---|---|---|---|\n")
	for _, r := range Reasons {
		fmt.Fprintf(&want, "| `%s` | `%s` | `%s` | %s | %s |\n", r.Kind, r.Name, r.Status, r.Meaning, r.Remedy)
	}
	if table == want.String() {
		return
	}
	if !*update {
		t.Fatalf("%s is not up to date: go test ./dataplane/conditions -run TestPage -update", page)
	}
	if err := os.WriteFile(page, []byte(before+heading+want.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

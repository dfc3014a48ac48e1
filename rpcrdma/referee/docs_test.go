package referee

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the rules into docs/referee.md")

const (
	page       = "../../docs/referee.md"
	tableStart = "<!-- rules: go test ./rpcrdma/referee -run TestDocs -args -update -->\n"
	tableEnd   = "<!-- end of rules -->"
)

// TestDocs checks that the table in docs/referee.md lists exactly the rules.
func TestDocs(t *testing.T) {
	var want strings.Builder
	want.WriteString("\n| rule | section | what is demanded |\n|---|---|---|\n")
	for _, r := range Rules() {
		fmt.Fprintf(&want, "| `%s` | %s | %s |\n", r.Name, r.Section, r.Text)
	}
	want.WriteString("\n")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), tableStart)
	got, tail, ok2 := strings.Cut(rest, tableEnd)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the rules", page)
	}
	if *update {
		if err := os.WriteFile(page, []byte(head+tableStart+want.String()+tableEnd+tail), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if got != want.String() {
		t.Errorf("the rules in %s are not those of the code; run the command that stands above them", page)
	}
}

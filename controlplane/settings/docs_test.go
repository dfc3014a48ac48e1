package settings

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// The page about settings has a row for every key that can be set, with what
// it takes.
func TestEverySettingIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../docs/settings.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string) // by key: what it takes
	for line := range strings.Lines(string(page)) {
		if cells := strings.Split(line, " | "); len(cells) == 4 {
			for key := range strings.SplitSeq(strings.TrimPrefix(cells[0], "| "), ", ") {
				rows[key] = cells[2]
			}
		}
	}
	for k := range NumKeys {
		if k.Missing() != "" {
			continue
		}
		takes, ok := rows[k.String()]
		if !ok {
			t.Errorf("%s has no row", k)
			continue
		}
		want := k.About().Allowed
		if keys[k].kind == number {
			want = fmt.Sprintf("%d..%d", keys[k].min, keys[k].max)
		}
		if !strings.HasPrefix(takes, want) {
			t.Errorf("%s takes %q, the page says %q", k, want, takes)
		}
	}
}

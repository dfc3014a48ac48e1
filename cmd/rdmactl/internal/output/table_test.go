package output

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func sample() *Table {
	t := &Table{Columns: []Column{{Name: "ID", Right: true}, {Name: "EXTRA", Drop: 2}, {Name: "MORE", Drop: 1}, {Name: "REASON"}}}
	t.Row("1", "aaaaaa", "bbbb", "short")
	t.Cells(Cell{Text: "22"}, Cell{}, Cell{Text: "c", Colour: Red}, Cell{Text: "a rather long reason"})
	return t
}

func text(t *testing.T, table *Table, width int, colours bool) string {
	t.Helper()
	var out strings.Builder
	if err := table.write(&out, width, colours); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestTableFitsTheTerminal(t *testing.T) {
	for width, want := range map[int]string{
		0: "ID  EXTRA   MORE  REASON\n" +
			" 1  aaaaaa  bbbb  short\n" +
			"22          c     a rather long reason\n",
		38: "ID  EXTRA   MORE  REASON\n" +
			" 1  aaaaaa  bbbb  short\n" +
			"22          c     a rather long reason\n",
		37: "ID  MORE  REASON\n" +
			" 1  bbbb  short\n" +
			"22  c     a rather long reason\n",
		29: "ID  REASON\n" +
			" 1  short\n" +
			"22  a rather long reason\n",
		12: "ID  REASON\n" +
			" 1  short\n" +
			"22  a rathe…\n",
		1: "ID  …\n 1  …\n22  …\n",
	} {
		got := text(t, sample(), width, false)
		if got != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, got, want)
		}
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 10 && n > width {
				t.Errorf("width %d: a line of %d", width, n)
			}
		}
	}
}

// TestCellsAreShortenedBeforeColumnsGo: what may be shortened is, down to its
// least width; wide characters count as two.
func TestCellsAreShortenedBeforeColumnsGo(t *testing.T) {
	table := &Table{Columns: []Column{{Name: "NAME", Min: 6}, {Name: "N", Right: true, Drop: 1}, {Name: "WHY", Min: 5}}}
	table.Row("productionnfs", "12345", "世界世界世界")
	table.Row("a", "1", "b")
	for width, want := range map[int]string{
		34: "NAME               N  WHY\nproductionnfs  12345  世界世界世界\na                  1  b\n",
		28: "NAME            N  WHY\nproductio…  12345  世界世界…\na               1  b\n",
		20: "NAME        N  WHY\nprodu…  12345  世界…\na           1  b\n",
		19: "NAME       WHY\nproducti…  世界世…\na          b\n",
		9:  "NAME    …\nprodu…  …\na       b\n",
	} {
		if got := text(t, table, width, false); got != want {
			t.Errorf("width %d:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// TestPairsAreNotCut: nothing else shows the values.
func TestPairsAreNotCut(t *testing.T) {
	table := Pairs()
	table.Row("reason", "gateway-1: condition upstream/filer is FAILED")
	if got := text(t, table, 20, false); got != "reason  gateway-1: condition upstream/filer is FAILED\n" {
		t.Errorf("%q", got)
	}
}

func TestColoursTakeNoRoom(t *testing.T) {
	plain, coloured := text(t, sample(), 0, false), text(t, sample(), 0, true)
	if !strings.Contains(coloured, "\x1b[31mc\x1b[0m     a rather") || !strings.HasPrefix(coloured, "\x1b[1mID\x1b[0m") {
		t.Errorf("%q", coloured)
	}
	for _, code := range []Colour{Bold, Red, reset} {
		coloured = strings.ReplaceAll(coloured, string(code), "")
	}
	if coloured != plain {
		t.Errorf("without colours:\n%s\nwant\n%s", coloured, plain)
	}
}

// TestTextsCannotSteerTheTerminal: reasons come from peers.
func TestTextsCannotSteerTheTerminal(t *testing.T) {
	table := &Table{Columns: make([]Column, 1)}
	table.Row("a\x1b[2Jb\r\nc\x7f\u009bd\u2026")
	if got, want := text(t, table, 0, true), "a\ufffd[2Jb\ufffd\ufffdc\ufffd\ufffdd\u2026\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

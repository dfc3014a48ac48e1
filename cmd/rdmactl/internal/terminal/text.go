// Package terminal makes texts safe to print. Texts from rdmad, and from peers through rdmad,
// may contain control sequences of a terminal.
package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Printable replaces characters that control a terminal or change the order of the text.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if steers(r) {
			return utf8.RuneError
		}
		return r
	}, s)
}

// OneLine removes control characters. Ends of lines and tabs become blanks.
func OneLine(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case steers(r):
			return -1
		}
		return r
	}, s)
}

// steers says whether r is a control character: of C0, C1, or for the
// direction of text.
func steers(r rune) bool { return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }

// Cut shortens s to n columns, with a mark. Truncate takes a keycap for one column, but it has two. So Cut tries less
// until it fits.
func Cut(s string, n int) string {
	out := ansi.Truncate(s, n, "…")
	for less := n - 1; ansi.StringWidth(out) > max(n, 0); less-- {
		out = ansi.Truncate(s, less, "…")
	}
	return out
}

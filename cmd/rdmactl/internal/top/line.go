package top

import (
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

// Looks. The colours are the terminal's own sixteen; without colours bold,
// faint and reverse remain.
var (
	plain  = lipgloss.NewStyle()
	bold   = plain.Bold(true)
	faint  = plain.Faint(true)
	title  = plain.Bold(true).Foreground(lipgloss.Cyan)
	graph  = plain.Foreground(lipgloss.Cyan)
	good   = plain.Foreground(lipgloss.Green)
	warn   = plain.Foreground(lipgloss.Yellow)
	bad    = plain.Foreground(lipgloss.Red)
	chosen = plain.Reverse(true)
	hotkey = plain.Bold(true)
)

// line is one line of the screen, never wider than it may be.
type line struct {
	out   strings.Builder
	width int // columns
	used  int
}

func newLine(width int) *line { return &line{width: width} }

// add appends a text in a style, cut at the line's end.
func (l *line) add(style lipgloss.Style, text string) *line {
	text = terminal.Cut(terminal.Printable(text), l.width-l.used)
	if text != "" {
		l.used += lipgloss.Width(text)
		l.out.WriteString(style.Render(text))
	}
	return l
}

// to fills with blanks up to a column.
func (l *line) to(column int) *line {
	if n := min(column, l.width) - l.used; n > 0 {
		l.out.WriteString(strings.Repeat(" ", n))
		l.used += n
	}
	return l
}

// right puts a text at the line's right end if there is room for it.
func (l *line) right(style lipgloss.Style, text string) *line {
	if n := lipgloss.Width(text); l.used+n < l.width {
		l.to(l.width-n).add(style, text)
	}
	return l
}

func (l *line) String() string { return l.out.String() }

// padTo is s in exactly n columns.
func padTo(s string, n int, right bool) string {
	s = terminal.Cut(terminal.Printable(s), n)
	blanks := strings.Repeat(" ", max(n-lipgloss.Width(s), 0))
	if right {
		return blanks + s
	}
	return s + blanks
}

// wrap breaks a text at blanks and hyphens into lines of at most so many columns. Without a
// text there is no line.
func wrap(text string, width int) []string {
	text = strings.Join(strings.Fields(terminal.Printable(text)), " ")
	if text == "" {
		return nil
	}
	return strings.Split(ansi.Wordwrap(text, width, ""), "\n")
}

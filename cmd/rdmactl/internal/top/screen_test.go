package top

import (
	"strings"

	"charm.land/lipgloss/v2"
)

// Cell is one place of the screen.
type Cell struct {
	// Text is one character with what combines with it; empty in the second
	// place of a wide one.
	Text string
	Style
}

// Style is how a cell looks.
type Style struct {
	// Fg and Bg are colours as #rrggbb, "" for the terminal's own.
	Fg, Bg                                  string
	Bold, Faint, Italic, Underline, Reverse bool
}

// Screen is a terminal without glass: it interprets what a program writes to its
// terminal and keeps the screen that one would see. Tests read it as text, the
// documentation's pictures are drawn from it. It knows the control sequences
// (ECMA-48 and xterm's) that full-screen programs use, ignores others, and answers
// none. The zero Screen is of no use; make one with NewScreen. It is for one
// goroutine at a time.
type Screen struct {
	width, height int
	cells         [][]Cell // of the screen in use
	other         [][]Cell // of the normal screen while the alternate is in use
	alternate     bool
	hidden        bool // cursor

	x, y           int
	wrap           bool // the last column was written: the next character goes to the next line
	savedX, savedY int
	top, bottom    int // scrolling region, bottom exclusive
	style          Style
	last           string // last character written, for REP

	parser parser
}

// NewScreen makes an empty screen of so many columns and lines.
func NewScreen(width, height int) *Screen {
	s := &Screen{width: width, height: height, bottom: height}
	s.cells = blank(width, height)
	s.other = blank(width, height)
	return s
}

func blank(width, height int) [][]Cell {
	rows := make([][]Cell, height)
	for i := range rows {
		rows[i] = blankLine(width)
	}
	return rows
}

func blankLine(width int) []Cell {
	line := make([]Cell, width)
	for i := range line {
		line[i].Text = " "
	}
	return line
}

// Size is the number of columns and lines.
func (s *Screen) Size() (width, height int) { return s.width, s.height }

// Alternate says whether the alternate screen is in use, as full-screen
// programs do while they run.
func (s *Screen) Alternate() bool { return s.alternate }

// CursorShown says whether the cursor can be seen.
func (s *Screen) CursorShown() bool { return !s.hidden }

// At is the cell in column x and line y, from 0.
func (s *Screen) At(x, y int) Cell { return s.cells[y][x] }

// Line is a line's text without blanks at its end.
func (s *Screen) Line(y int) string {
	var out strings.Builder
	for _, c := range s.cells[y] {
		out.WriteString(c.Text)
	}
	return strings.TrimRight(out.String(), " ")
}

// String is all lines without empty ones at the end, each with a line end.
func (s *Screen) String() string {
	var out strings.Builder
	for y := range s.height {
		out.WriteString(s.Line(y) + "\n")
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// Resize changes the number of columns and lines. What doesn't fit is lost.
func (s *Screen) Resize(width, height int) {
	for _, cells := range []*[][]Cell{&s.cells, &s.other} {
		now := blank(width, height)
		for y := range min(height, s.height) {
			copy(now[y], (*cells)[y])
		}
		*cells = now
	}
	s.width, s.height = width, height
	s.top, s.bottom = 0, height
	s.move(s.x, s.y)
}

// move puts the cursor to a place, or the nearest one on the screen.
func (s *Screen) move(x, y int) {
	s.x, s.y, s.wrap = min(max(x, 0), s.width-1), min(max(y, 0), s.height-1), false
}

// print writes a character at the cursor.
func (s *Screen) print(text string) {
	width := lipgloss.Width(text)
	if width == 0 { // combines with the one before
		if s.x > 0 {
			s.cells[s.y][s.x-1].Text += text
		}
		return
	}
	if s.wrap || s.x+width > s.width {
		s.x, s.wrap = 0, false
		s.lineFeed()
	}
	s.last = text
	s.cells[s.y][s.x] = Cell{text, s.style}
	if width == 2 && s.x+1 < s.width {
		s.cells[s.y][s.x+1] = Cell{"", s.style}
	}
	if s.x+width >= s.width {
		s.x, s.wrap = s.width-1, true
		return
	}
	s.x += width
}

// lineFeed goes down a line, and scrolls at the region's end.
func (s *Screen) lineFeed() {
	switch {
	case s.y == s.bottom-1:
		s.scroll(s.top, s.bottom, 1)
	case s.y < s.height-1:
		s.y++
	}
}

// scroll moves the lines of a region up by n, down if n is negative.
func (s *Screen) scroll(top, bottom, n int) {
	region := s.cells[top:bottom]
	n = max(-len(region), min(n, len(region)))
	moved := make([][]Cell, len(region))
	for i := range moved {
		if from := i + n; from >= 0 && from < len(region) {
			moved[i] = region[from]
		} else {
			moved[i] = s.empty()
		}
	}
	copy(region, moved)
}

// empty is a line as erasing makes it: it keeps the background (BCE).
func (s *Screen) empty() []Cell {
	line := blankLine(s.width)
	for i := range line {
		line[i].Bg = s.style.Bg
	}
	return line
}

// erase blanks the columns from..to of a line, to exclusive.
func (s *Screen) erase(y, from, to int) {
	for x := max(from, 0); x < min(to, s.width); x++ {
		s.cells[y][x] = Cell{Text: " ", Style: Style{Bg: s.style.Bg}}
	}
}

// useAlternate goes to the alternate screen, empty, or back.
func (s *Screen) useAlternate(on bool) {
	if on == s.alternate {
		return
	}
	s.alternate = on
	s.cells, s.other = s.other, s.cells
	if on {
		s.savedX, s.savedY = s.x, s.y
		s.cells = blank(s.width, s.height)
		return
	}
	s.move(s.savedX, s.savedY)
}

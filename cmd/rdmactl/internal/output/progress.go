package output

import (
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
)

// Progress is one line on a terminal that is written again and again. If the output is not a
// terminal that can do that, it writes nothing.
type Progress struct {
	w     *os.File // nil: no such terminal
	drawn bool
}

// NewProgress returns a progress line on w.
func NewProgress(w io.Writer) *Progress {
	p := &Progress{}
	if f, ok := w.(*os.File); ok && os.Getenv("TERM") != "dumb" {
		if _, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ); err == nil {
			p.w = f
		}
	}
	return p
}

// Shown reports whether a terminal shows the line.
func (p *Progress) Shown() bool { return p.w != nil }

// eraseLine goes to the line's begin and erases it.
const eraseLine = "\r\x1b[K"

// Draw shows the finished part of the work, 0 to 1, and a text.
func (p *Progress) Draw(done float64, text string) { p.Text(progressLine(done, text)) }

// Text shows only a text, for work without a known end. It is cut to the terminal's width: only the last of several lines
// could be erased.
func (p *Progress) Text(text string) {
	if p.w == nil {
		return
	}
	text = terminal.Printable(text)
	if size, err := unix.IoctlGetWinsize(int(p.w.Fd()), unix.TIOCGWINSZ); err == nil && size.Col > 0 {
		text = terminal.Cut(text, int(size.Col)-1)
	}
	p.drawn = true
	fmt.Fprint(p.w, eraseLine+text)
}

// End removes the line.
func (p *Progress) End() {
	if p.drawn {
		p.drawn = false
		fmt.Fprint(p.w, eraseLine)
	}
}

// progressWidth is the length of a whole bar, in terminal columns.
const progressWidth = 20

func progressLine(done float64, text string) string {
	n := int(min(max(done, 0), 1) * progressWidth)
	return fmt.Sprintf("[%s%s] %s", strings.Repeat("#", n), strings.Repeat(".", progressWidth-n), text)
}

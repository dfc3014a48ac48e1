package top

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds of a control sequence; what is longer is nonsense and is skipped.
const maxSequence = 4096

type parser struct {
	pending []byte // a character or control sequence that has not ended yet
}

// Write interprets what a program wrote. It never fails.
func (s *Screen) Write(p []byte) (int, error) {
	data := append(s.parser.pending, p...)
	for len(data) > 0 {
		n := s.next(data)
		if n == 0 {
			break
		}
		data = data[n:]
	}
	if len(data) > maxSequence {
		data = nil
	}
	s.parser.pending = append([]byte(nil), data...)
	return len(p), nil
}

// next interprets what data begins with and says how long it was, 0 if its
// end is missing.
func (s *Screen) next(data []byte) int {
	switch c := data[0]; {
	case c == 0x1b:
		return s.escape(data)
	case c < ' ' || c == 0x7f:
		s.control(c)
		return 1
	}
	if !utf8.FullRune(data) {
		return 0
	}
	_, n := utf8.DecodeRune(data)
	s.print(string(data[:n]))
	return n
}

func (s *Screen) control(c byte) {
	switch c {
	case '\r':
		s.move(0, s.y)
	case '\n', '\v', '\f':
		s.wrap = false
		s.lineFeed()
	case '\b':
		s.move(s.x-1, s.y)
	case '\t':
		s.move((s.x/8+1)*8, s.y)
	}
}

// escape interprets a sequence that begins with ESC.
func (s *Screen) escape(data []byte) int {
	if len(data) < 2 {
		return 0
	}
	switch data[1] {
	case '[':
		return s.csi(data)
	case ']', 'P', '_', '^', 'X': // OSC, DCS, APC, PM, SOS: a string follows
		return stringEnd(data)
	case '(', ')', '*', '+', '#', '%', ' ':
		return min(len(data), 3) / 3 * 3
	case '7':
		s.savedX, s.savedY = s.x, s.y
	case '8':
		s.move(s.savedX, s.savedY)
	case 'M': // reverse index
		if s.y == s.top {
			s.scroll(s.top, s.bottom, -1)
		} else {
			s.move(s.x, s.y-1)
		}
	case 'D':
		s.lineFeed()
	case 'E':
		s.move(0, s.y)
		s.lineFeed()
	}
	return 2
}

// stringEnd is the length of a control string with its terminator.
func stringEnd(data []byte) int {
	for i := 2; i < len(data); i++ {
		switch {
		case data[i] == 0x07:
			return i + 1
		case data[i] == 0x1b && i+1 < len(data) && data[i+1] == '\\':
			return i + 2
		}
	}
	return 0
}

// csi interprets a control sequence: ESC [ parameters intermediates final.
func (s *Screen) csi(data []byte) int {
	end := 2
	for end < len(data) && (data[end] < 0x40 || data[end] > 0x7e) {
		end++
	}
	if end == len(data) {
		return 0
	}
	body, final := string(data[2:end]), data[end]
	switch {
	case strings.HasPrefix(body, "?") && (final == 'h' || final == 'l') && !strings.Contains(body, "$"):
		s.modes(parameters(body[1:]), final == 'h')
	case strings.ContainsAny(body, "?<=>$! \"'"): // questions and private ones
	case final == 'm':
		s.sgr(body)
	default:
		s.command(final, parameters(body))
	}
	return end + 1
}

func (s *Screen) modes(which []int, on bool) {
	for _, mode := range which {
		switch mode {
		case 25:
			s.hidden = !on
		case 47, 1047, 1049:
			s.useAlternate(on)
		}
	}
}

// parameters reads numbers between semicolons; missing ones are 0.
func parameters(body string) (out []int) {
	for part := range strings.SplitSeq(body, ";") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 0 {
			n = 0
		}
		out = append(out, min(n, 1<<16))
	}
	return out
}

// command carries a control sequence out. Numbers that are missing or 0 mean 1
// where they count something.
func (s *Screen) command(final byte, p []int) {
	n := max(p[0], 1)
	second := 1
	if len(p) > 1 {
		second = max(p[1], 1)
	}
	switch final {
	case 'A':
		s.move(s.x, s.y-n)
	case 'B', 'e':
		s.move(s.x, s.y+n)
	case 'C', 'a':
		s.move(s.x+n, s.y)
	case 'D':
		s.move(s.x-n, s.y)
	case 'E':
		s.move(0, s.y+n)
	case 'F':
		s.move(0, s.y-n)
	case 'G', '`':
		s.move(n-1, s.y)
	case 'H', 'f':
		s.move(second-1, n-1)
	case 'I':
		s.move((s.x/8+n)*8, s.y)
	case 'Z':
		s.move((s.x-1)/8*8-(n-1)*8, s.y)
	case 'd':
		s.move(s.x, n-1)
	case 's':
		s.savedX, s.savedY = s.x, s.y
	case 'u':
		s.move(s.savedX, s.savedY)
	case 'r':
		s.region(n-1, p)
	default:
		s.edit(final, p[0], n)
	}
}

// region sets the lines that scroll.
func (s *Screen) region(top int, p []int) {
	bottom := s.height
	if len(p) > 1 && p[1] > 0 {
		bottom = min(p[1], s.height)
	}
	if top < bottom {
		s.top, s.bottom = top, bottom
		s.move(0, 0)
	}
}

// edit carries out what changes cells.
func (s *Screen) edit(final byte, mode, n int) {
	line := s.cells[s.y]
	switch final {
	case 'J':
		s.eraseDisplay(mode)
	case 'K':
		from, to := s.x, s.width
		if mode > 0 {
			from = 0
		}
		if mode == 1 {
			to = s.x + 1
		}
		s.erase(s.y, from, to)
	case 'X':
		s.erase(s.y, s.x, s.x+n)
	case '@':
		n = min(n, s.width-s.x)
		copy(line[s.x+n:], line[s.x:])
		s.erase(s.y, s.x, s.x+n)
	case 'P':
		n = min(n, s.width-s.x)
		copy(line[s.x:], line[s.x+n:])
		s.erase(s.y, s.width-n, s.width)
	case 'L', 'M':
		if final == 'L' {
			n = -n
		}
		if s.y >= s.top && s.y < s.bottom {
			s.scroll(s.y, s.bottom, n)
		}
	case 'S':
		s.scroll(s.top, s.bottom, n)
	case 'T':
		s.scroll(s.top, s.bottom, -n)
	case 'b':
		for range min(n, s.width*s.height) {
			s.print(s.last)
		}
	}
}

func (s *Screen) eraseDisplay(mode int) {
	from, to := 0, s.height
	switch mode {
	case 0:
		s.erase(s.y, s.x, s.width)
		from = s.y + 1
	case 1:
		s.erase(s.y, 0, s.x+1)
		to = s.y
	}
	for y := from; y < to; y++ {
		s.erase(y, 0, s.width)
	}
}

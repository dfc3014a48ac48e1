package top

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestInterprets(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"text", "ab\r\ncd", "ab\ncd\n"},
		{"wraps at the next character", "abcdefgh\rX", "Xbcdefgh\n"},
		{"wraps", "abcdefghi", "abcdefgh\ni\n"},
		{"scrolls", "1\r\n2\r\n3\r\n4\r\n5", "2\n3\n4\n5\n"},
		{"goes to a place", "\x1b[2;3Hx\x1b[Hy\x1b[4dz", "y\n  x\n\n z\n"},
		{"goes by columns", "abc\x1b[Gx\x1b[3Cy\x1b[2Dz\x1b[6`w", "xbczyw\n"},
		{"erases to the end", "abcdef\x1b[3G\x1b[K", "ab\n"},
		{"erases from the start", "abcdef\x1b[3G\x1b[1K", "   def\n"},
		{"erases characters", "abcdef\x1b[2G\x1b[3X", "a   ef\n"},
		{"erases below", "ab\r\ncd\r\nef\x1b[2;2H\x1b[J", "ab\nc\n"},
		{"erases above", "ab\r\ncd\r\nef\x1b[2;1H\x1b[1J", "\n d\nef\n"},
		{"inserts and deletes characters", "abcd\x1b[2G\x1b[2@\x1b[1G\x1b[P", "  bcd\n"},
		{"inserts lines", "1\r\n2\r\n3\x1b[2H\x1b[L", "1\n\n2\n3\n"},
		{"deletes lines", "1\r\n2\r\n3\x1b[1H\x1b[2M", "3\n"},
		{"scrolls a region", "1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3H\n", "1\n3\n\n4\n"},
		{"scrolls back", "1\r\n2\x1b[H\x1bM", "\n1\n2\n"},
		{"repeats", "ab\x1b[3b", "abbbb\n"},
		{"tabs", "\ta\x1b[Z\x1b[Zb", "b      a\n"},
		{"saves the cursor", "a\x1b7bc\x1b8X", "aXc\n"},
		{"ignores strings and questions", "\x1b]0;title\x07a\x1bP+q\x1b\\b\x1b[?2026$pc\x1b[>1ud", "abcd\n"},
		{"combines", "e\u0301x", "e\u0301x\n"},
		{"wide characters take two", "漢x\x1b[3GY", "漢Y\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			whole, split := NewScreen(8, 4), NewScreen(8, 4)
			whole.Write([]byte(c.in))
			for i := range len(c.in) {
				split.Write([]byte{c.in[i]})
			}
			if got := whole.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if got := split.String(); got != c.want {
				t.Errorf("byte by byte got %q, want %q", got, c.want)
			}
		})
	}
}

func TestAlternateScreen(t *testing.T) {
	s := NewScreen(8, 2)
	s.Write([]byte("shell$ \x1b[?1049h\x1b[?25l\x1b[Hprogram"))
	if !s.Alternate() || s.CursorShown() || s.Line(0) != "program" {
		t.Errorf("alternate %v, cursor %v, %q", s.Alternate(), s.CursorShown(), s.Line(0))
	}
	s.Write([]byte("\x1b[?1049l\x1b[?25h"))
	if s.Alternate() || !s.CursorShown() || s.Line(0) != "shell$" {
		t.Errorf("alternate %v, cursor %v, %q", s.Alternate(), s.CursorShown(), s.Line(0))
	}
}

func TestStyles(t *testing.T) {
	for _, c := range []struct {
		sgr  string
		want Style
	}{
		{"1", Style{Bold: true}},
		{"1;22;3;4;7", Style{Italic: true, Underline: true, Reverse: true}},
		{"31;102", Style{Fg: palette[1], Bg: palette[10]}},
		{"38;5;208", Style{Fg: "#ff8700"}},
		{"48;5;244", Style{Bg: "#808080"}},
		{"38;2;1;2;3", Style{Fg: "#010203"}},
		{"38:5:9;2", Style{Fg: palette[9], Faint: true}},
		{"31;1;0", Style{}},
		{"31;1;", Style{Fg: palette[1], Bold: true}},
		{"38;5", Style{}},
	} {
		s := NewScreen(4, 1)
		s.Write([]byte("\x1b[" + c.sgr + "mx"))
		if got := s.At(0, 0).Style; got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.sgr, got, c.want)
		}
	}
}

func TestResizeKeepsWhatFits(t *testing.T) {
	s := NewScreen(6, 3)
	s.Write([]byte("abcdef\r\n12\r\nxyz"))
	s.Resize(3, 2)
	s.Write([]byte("!"))
	if got := s.String(); got != "abc\n12!\n" {
		t.Errorf("got %q", got)
	}
}

func TestSVGIsXML(t *testing.T) {
	s := NewScreen(20, 3)
	s.Write([]byte("<a & \"b\">\r\n\x1b[1;31mred\x1b[0m \x1b[7m▂█▌x\x1b[0m"))
	svg := s.SVG("a < b")
	texts, rects := 0, 0
	for dec := xml.NewDecoder(strings.NewReader(svg)); ; {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok {
			switch e.Name.Local {
			case "text":
				texts++
			case "rect":
				rects++
			}
		}
	}
	// Title, three words, red, x; window, reversed background, three blocks.
	if texts != 6 || rects != 5 {
		t.Errorf("%d texts and %d rectangles in:\n%s", texts, rects, svg)
	}
	if want := `fill="` + palette[1] + `" font-weight="bold"`; !strings.Contains(svg, want) {
		t.Errorf("no %s in:\n%s", want, svg)
	}
}

func FuzzWrite(f *testing.F) {
	f.Add([]byte("\x1b[2;3r\x1b[5L\x1b[99;99Hab\x1b[3b\x1b[?1049h"))
	f.Add([]byte("漢\x1b[38;2;1m\x1b]0;x\x07\xff\x1b[1@\x1b[P"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := NewScreen(10, 4)
		s.Write(data)
		s.Resize(7, 2)
		s.Write(data)
		if n := strings.Count(s.String(), "\n"); n > 2 {
			t.Errorf("%d lines of 2", n)
		}
		if err := xml.Unmarshal([]byte(s.SVG("x")), new(struct{})); err != nil {
			t.Error(err)
		}
	})
}

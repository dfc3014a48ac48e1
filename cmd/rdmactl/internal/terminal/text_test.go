package terminal

import "testing"

func TestTexts(t *testing.T) {
	for _, c := range []struct{ in, printable, line string }{
		{"plain ünïcode 漢", "plain ünïcode 漢", "plain ünïcode 漢"},
		{"a\x1b[31mb\x7f", "a\ufffd[31mb\ufffd", "a[31mb"},
		{"a\u009b2Jb", "a\ufffd2Jb", "a2Jb"}, // CSI in one character
		{"two\nlines\tof\r", "two\ufffdlines\ufffdof\ufffd", "two lines of"},
		{"user\u202etxt.\u2066exe", "user\ufffdtxt.\ufffdexe", "usertxt.exe"},
	} {
		if got := Printable(c.in); got != c.printable {
			t.Errorf("Printable(%q) is %q, want %q", c.in, got, c.printable)
		}
		if got := OneLine(c.in); got != c.line {
			t.Errorf("OneLine(%q) is %q, want %q", c.in, got, c.line)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{
		{"abcdef", 6, "abcdef"},
		{"abcdef", 5, "abcd…"},
		{"abcdef", 1, "…"},
		{"abcdef", 0, ""},
		{"漢字漢字", 5, "漢字…"}, // two columns each
		{"漢字漢字", 4, "漢…"},
		{"👩‍🚀abc", 3, "👩‍🚀…"}, // several characters that a terminal shows as one
		{"1\ufe0f\u20e31\ufe0f\u20e31\ufe0f\u20e3", 5, "1\ufe0f\u20e31\ufe0f\u20e3…"}, // keycaps: two columns each
		{"1\ufe0f\u20e31\ufe0f\u20e31\ufe0f\u20e3", 1, "…"},
		{"", 3, ""},
	} {
		if got := Cut(c.in, c.n); got != c.want {
			t.Errorf("Cut(%q, %d) is %q, want %q", c.in, c.n, got, c.want)
		}
	}
}

package top

import (
	"fmt"
	"strconv"
	"strings"
)

// palette are the sixteen colours by their numbers.
var palette = [16]string{
	"#1d1f21", "#cc6666", "#8fb573", "#e5c07b", "#6ca0dc", "#b294bb", "#56b6c2", "#c5c8c6",
	"#6b7078", "#e06c75", "#a5d27f", "#f0c674", "#81b4f0", "#c8a2d8", "#70c7d1", "#ffffff",
}

// colour is one of the 256: the palette, a cube of 6x6x6, and greys.
func colour(n int) string {
	switch {
	case n < 0 || n > 255:
		return ""
	case n < 16:
		return palette[n]
	case n < 232:
		level := func(i int) int {
			if i == 0 {
				return 0
			}
			return 55 + 40*i
		}
		n -= 16
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	}
	grey := 8 + 10*(n-232)
	return fmt.Sprintf("#%02x%02x%02x", grey, grey, grey)
}

// sgr changes the style (Select Graphic Rendition). Parts of a colour may be
// separated by colons.
func (s *Screen) sgr(body string) {
	p := strings.FieldsFunc(body, func(r rune) bool { return r == ';' || r == ':' })
	if len(p) == 0 {
		p = []string{"0"}
	}
	for i := 0; i < len(p); i++ {
		n, err := strconv.Atoi(p[i])
		if err != nil {
			return
		}
		if n == 38 || n == 48 {
			text, used := extended(p[i+1:])
			if used == 0 {
				return
			}
			if n == 38 {
				s.style.Fg = text
			} else {
				s.style.Bg = text
			}
			i += used
			continue
		}
		s.style.apply(n)
	}
}

// extended reads 5;N or 2;R;G;B and says how many parts that were.
func extended(p []string) (text string, used int) {
	var n [4]int
	for i := range min(len(p), len(n)) {
		n[i], _ = strconv.Atoi(p[i]) // 0 is as good as any
	}
	switch {
	case len(p) >= 2 && n[0] == 5:
		return colour(n[1]), 2
	case len(p) >= 4 && n[0] == 2:
		return fmt.Sprintf("#%02x%02x%02x", n[1]&0xff, n[2]&0xff, n[3]&0xff), 4
	}
	return "", 0
}

func (st *Style) apply(n int) {
	switch {
	case n == 0:
		*st = Style{}
	case n == 1:
		st.Bold = true
	case n == 2:
		st.Faint = true
	case n == 3:
		st.Italic = true
	case n == 4:
		st.Underline = true
	case n == 7:
		st.Reverse = true
	case n == 22:
		st.Bold, st.Faint = false, false
	case n == 23:
		st.Italic = false
	case n == 24:
		st.Underline = false
	case n == 27:
		st.Reverse = false
	case n >= 30 && n <= 37:
		st.Fg = palette[n-30]
	case n == 39:
		st.Fg = ""
	case n >= 40 && n <= 47:
		st.Bg = palette[n-40]
	case n == 49:
		st.Bg = ""
	case n >= 90 && n <= 97:
		st.Fg = palette[n-90+8]
	case n >= 100 && n <= 107:
		st.Bg = palette[n-100+8]
	}
}

package top

import (
	"encoding/xml"
	"fmt"
	"strings"
)

// Sizes in a picture, in pixels.
const (
	cellWidth  = 8.4
	cellHeight = 18.0
	fontSize   = 14
	baseline   = 13.5 // of the text, from the top of its line
	margin     = 12.0
	titleBar   = 28.0
)

const (
	pictureFg = "#d4d7dc"
	pictureBg = "#16181d"
	frame     = "#2a2e37"
)

// SVG draws the screen as a window with a title.
func (s *Screen) SVG(title string) string {
	width := 2*margin + cellWidth*float64(s.width)
	height := titleBar + 2*margin + cellHeight*float64(s.height)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" width="%.0f" height="%.0f" viewBox="0 0 %.0f %.0f" `+
		`font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="%d">`+"\n",
		width, height, width, height, fontSize)
	fmt.Fprintf(&out, `<title>%s</title>`+"\n", escape(title))
	fmt.Fprintf(&out, `<rect width="%.0f" height="%.0f" rx="8" fill="%s"/>`+"\n", width, height, pictureBg)
	fmt.Fprintf(&out, `<path d="M0 8a8 8 0 0 1 8-8h%.0fa8 8 0 0 1 8 8v%.0fh-%.0fz" fill="%s"/>`+"\n", width-16, titleBar-8, width, frame)
	for i, fill := range []string{"#e06c75", "#e5c07b", "#98c379"} {
		fmt.Fprintf(&out, `<circle cx="%d" cy="14" r="5.5" fill="%s"/>`+"\n", 18+i*18, fill)
	}
	fmt.Fprintf(&out, `<text x="%.0f" y="18.5" fill="#9aa0aa" text-anchor="middle" font-size="13">%s</text>`+"\n", width/2, escape(title))
	fmt.Fprintf(&out, `<g transform="translate(%.0f %.0f)" xml:space="preserve">`+"\n", margin, titleBar+margin)
	for y := range s.height {
		s.svgLine(&out, y)
	}
	out.WriteString("</g>\n</svg>\n")
	return out.String()
}

// svgLine draws backgrounds first, then runs of text in one style, then
// block characters, which fonts draw with gaps, as rectangles.
func (s *Screen) svgLine(out *strings.Builder, y int) {
	line := s.cells[y]
	for from := 0; from < len(line); {
		to := from + 1
		for to < len(line) && line[to].Style == line[from].Style {
			to++
		}
		fg, bg := line[from].colours()
		if bg != pictureBg {
			rect(out, float64(from), float64(y), float64(to-from), 1, bg)
		}
		s.svgRun(out, from, to, y, fg)
		from = to
	}
}

func (s *Screen) svgRun(out *strings.Builder, from, to, y int, fg string) {
	line := s.cells[y]
	for at := from; at < to; {
		if line[at].Text == " " || line[at].Text == "" {
			at++
			continue
		}
		if top, w, h, ok := blockPart(line[at].Text); ok {
			rect(out, float64(at), float64(y)+top, w, h, fg)
			at++
			continue
		}
		end := at
		var text strings.Builder
		for ; end < to && line[end].Text != " "; end++ {
			if _, _, _, ok := blockPart(line[end].Text); ok {
				break
			}
			text.WriteString(line[end].Text)
		}
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" fill="%s"%s textLength="%.1f" lengthAdjust="spacingAndGlyphs">%s</text>`+"\n",
			cellWidth*float64(at), cellHeight*float64(y)+baseline, fg, line[at].attributes(), cellWidth*float64(end-at), escape(text.String()))
		at = end
	}
}

func rect(out *strings.Builder, x, y, w, h float64, fill string) {
	fmt.Fprintf(out, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n",
		cellWidth*x, cellHeight*y, cellWidth*w, cellHeight*h, fill)
}

// blockPart is the part of its cell that a block character fills (U+2581 to
// U+258F), in cells.
func blockPart(text string) (top, width, height float64, ok bool) {
	r := []rune(text)
	switch {
	case len(r) != 1:
		return 0, 0, 0, false
	case r[0] >= '▁' && r[0] <= '█': // from below, in eighths
		height = float64(r[0]-'▁'+1) / 8
		return 1 - height, 1, height, true
	case r[0] > '█' && r[0] <= '▏': // from the left, in eighths
		return 0, float64('▏'-r[0]+1) / 8, 1, true
	}
	return 0, 0, 0, false
}

// colours are what is seen.
func (st Style) colours() (fg, bg string) {
	fg, bg = st.Fg, st.Bg
	if fg == "" {
		fg = pictureFg
	}
	if bg == "" {
		bg = pictureBg
	}
	if st.Reverse {
		return bg, fg
	}
	return fg, bg
}

func (st Style) attributes() string {
	out := ""
	if st.Bold {
		out += ` font-weight="bold"`
	}
	if st.Faint {
		out += ` opacity="0.65"`
	}
	if st.Italic {
		out += ` font-style="italic"`
	}
	if st.Underline {
		out += ` text-decoration="underline"`
	}
	return out
}

func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a Builder takes everything
	return out.String()
}

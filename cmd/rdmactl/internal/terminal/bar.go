package terminal

import "strings"

// eighths are the ends of bars, in eighths of a column.
var eighths = []rune(" ▏▎▍▌▋▊▉")

// Bar returns a bar for n of most, so many columns wide. A number above 0 is always visible.
func Bar(n, most float64, width int) string {
	if n <= 0 || most <= 0 {
		return ""
	}
	parts := max(int(min(n/most, 1)*float64(width)*8+0.5), 1)
	out := strings.Repeat("█", parts/8)
	if rest := parts % 8; rest > 0 {
		out += string(eighths[rest])
	}
	return out
}

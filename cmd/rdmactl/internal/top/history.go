package top

import (
	"math"
	"slices"
)

// remembered is how many samples sparklines can show; on wider terminals
// they end.
const remembered = 120

// history is the latest values of something, the oldest first.
type history []float64

func (h *history) add(v float64) {
	v = min(v, math.MaxFloat64) // a node's report may have an infinite value, and that divided by itself is no number
	*h = latest(*h, v)
}

// latest appends to a list of which only the latest elements are kept.
func latest[T any](all []T, one T) []T {
	if len(all) == remembered {
		all = slices.Delete(all, 0, 1)
	}
	return append(all, one)
}

var levels = []rune("▁▂▃▄▅▆▇█")

// spark draws the latest values, as many as fit, the newest at the right.
// The largest of them is the full height; 0 is the lowest level.
func (h history) spark(width int) string {
	h = h[max(len(h)-width, 0):]
	most := 0.0
	for _, v := range h {
		most = max(most, v)
	}
	out := make([]rune, 0, width)
	for range width - len(h) {
		out = append(out, ' ')
	}
	for _, v := range h {
		level := 0
		if most > 0 && v > 0 {
			level = int(math.Round(v / most * float64(len(levels)-1)))
		}
		out = append(out, levels[level])
	}
	return string(out)
}

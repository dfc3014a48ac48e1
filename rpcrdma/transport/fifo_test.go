package transport

import (
	"testing"

	"pgregory.net/rapid"
)

func TestFIFO(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f fifo[int]
		var model []int
		next := 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(*rapid.T) {
				next++
				f.push(next)
				model = append(model, next)
			},
			"pop": func(t *rapid.T) {
				if len(model) == 0 {
					t.Skip()
				}
				if p, v := f.peek(), f.pop(); v != model[0] || p != v {
					t.Fatalf("%d, peeked %d, want %d", v, p, model[0])
				}
				model = model[1:]
			},
			"": func(t *rapid.T) {
				if f.len() != len(model) {
					t.Fatalf("%d entries, want %d", f.len(), len(model))
				}
			},
		})
	})
}

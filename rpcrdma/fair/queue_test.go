package fair

import (
	"testing"

	"pgregory.net/rapid"
)

// TestQueueIsFair drives a queue with random arrivals. No flow with work waits for
// more than one item of each other flow per unit of their weights, and while two
// flows have work, what each gets done follows the weights.
func TestQueueIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 6).Draw(t, "flows")
		var q Queue[[2]int]
		flows := make([]Flow[[2]int], n)
		pushed, popped := make([]int, n), make([]int, n)
		since := make([][]int, n) // popped of all flows when the flow's head came to be
		for i := range flows {
			flows[i].Weight = rapid.IntRange(1, 5).Draw(t, "weight")
		}
		total := 0
		pop := func() {
			item, ok := q.Pop()
			if ok != (total > 0) {
				t.Fatalf("popped %v with %d items", ok, total)
			}
			if !ok {
				return
			}
			i := item[0]
			if item[1] != popped[i] {
				t.Fatalf("flow %d: item %d, want %d", i, item[1], popped[i])
			}
			for j := range flows {
				if j == i {
					continue
				}
				others := popped[j] - since[i][j]
				if most := 1 + (flows[j].Weight+flows[i].Weight-1)/flows[i].Weight; others > most {
					t.Fatalf("flow %d of weight %d waited for %d items of flow %d of weight %d", i, flows[i].Weight, others, j, flows[j].Weight)
				}
			}
			popped[i]++
			total--
			since[i] = append(since[i][:0], popped...)
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "pop") {
				pop()
				continue
			}
			i := rapid.IntRange(0, n-1).Draw(t, "flow")
			for range rapid.IntRange(1, 20).Draw(t, "items") {
				if pushed[i] == popped[i] {
					since[i] = append(since[i][:0], popped...)
				}
				q.Push(&flows[i], [2]int{i, pushed[i]})
				pushed[i]++
				total++
			}
		}
		if q.Len() != total {
			t.Fatalf("Len %d, want %d", q.Len(), total)
		}
		for total > 0 {
			pop()
		}
		pop()
	})
}

// TestQueueWeights: flows that always have work get items done by weight, to within
// one item.
func TestQueueWeights(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const each = 600
		weights := rapid.SliceOfN(rapid.IntRange(1, 9), 2, 6).Draw(t, "weights")
		var q Queue[int]
		flows, got := make([]Flow[int], len(weights)), make([]int, len(weights))
		for i, w := range weights {
			flows[i].Weight = w
			for range each {
				q.Push(&flows[i], i)
			}
		}
		for k := 1; k <= each; k++ { // none runs out of items
			i, _ := q.Pop()
			got[i]++
			for i, w := range weights {
				for j, v := range weights {
					if ahead := got[i]*v - got[j]*w; ahead > w+v {
						t.Fatalf("after %d items flow %d of weights %v is %d/%d ahead of flow %d: %v", k, i, weights, ahead, w*v, j, got)
					}
				}
			}
		}
	})
}

// TestQueueFlood: while one flow has 64 items waiting, an item of another flow is
// next or next but one.
func TestQueueFlood(t *testing.T) {
	var q Queue[string]
	var flood, other Flow[string]
	for range 64 {
		q.Push(&flood, "flood")
	}
	for range 10 {
		q.Pop()
		q.Push(&other, "other")
		first, _ := q.Pop()
		second, _ := q.Pop()
		if first != "other" && second != "other" {
			t.Fatalf("%s and %s before the other", first, second)
		}
	}
}

// TestQueueAllocatesNothing: storage is used again.
func TestQueueAllocatesNothing(t *testing.T) {
	var q Queue[int]
	flows := make([]Flow[int], 4)
	round := func() {
		for i := range flows {
			for k := range 8 {
				q.Push(&flows[i], k)
			}
		}
		for q.Len() > 0 {
			q.Pop()
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package placement

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Directions for results are in sets, each for a range of the request's XDR stream. rtrext
// §7.4: "Particular directions regarding bulk data in the corresponding response are
// limited to such ranges, where response XDR stream positions and request XDR stream
// positions can be reliably tied together", so that a range "can isolate elements of the
// reply due to particular operations".
//
// So a result belongs to the range that contains its operation, and takes the next
// direction in that range. A result that is too short uses up a direction, too. An
// operation that two ranges share belongs to neither: its results stay in the payload
// stream.

// Direction returns the k-th of all directions.
func Direction(sets []rpcrdma2.ResultSet, k int) *rpcrdma2.ResultItem {
	for i := range sets {
		if k < len(sets[i].Items) {
			return &sets[i].Items[k]
		}
		k -= len(sets[i].Items)
	}
	return nil
}

// Tie sets Into of each result to the index of its direction, or -1. args is where the
// arguments of the call are. They count as one operation unless the results name several.
func Tie(items []chunk.Item, sets []rpcrdma2.ResultSet, args xdr.Span) {
	var used [rpcrdma2.MaxRanges]int
	for i := range items {
		it := &items[i]
		it.Into = -1
		if it.Absent {
			continue
		}
		asked := args
		if !it.Asked.Empty() {
			asked = it.Asked.Shift(args.Begin)
		}
		set, first := tied(sets, asked)
		if set < 0 || used[set] == len(sets[set].Items) {
			continue
		}
		it.Into = first + used[set]
		used[set]++
	}
}

// tied returns the only set whose range contains an operation, and the index of its first
// direction. set is -1 if there is none.
func tied(sets []rpcrdma2.ResultSet, asked xdr.Span) (set, first int) {
	set, n := -1, 0
	for i := range sets {
		if asked.Meets(xdr.Span{Begin: int(sets[i].Begin), End: int(sets[i].End)}) {
			if set >= 0 {
				return -1, 0
			}
			set, first = i, n
		}
		n += len(sets[i].Items)
	}
	return set, first
}

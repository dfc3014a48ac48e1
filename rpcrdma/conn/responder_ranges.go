package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Directions for results stand in sets, each for a range of the request's XDR
// stream. rtrext §7.4: "Particular directions regarding bulk data in the
// corresponding response are limited to such ranges, where response XDR stream
// positions and request XDR stream positions can be reliably tied together", so
// that a range "can isolate elements of the reply due to particular operations".
//
// So a result is tied to the range that its operation is in, and within it the
// next direction is its, "considered used up" by a result that is too short as
// well. An operation that two ranges share is tied to neither: its results stay in
// the payload stream.

// direction is the k-th of all directions.
func direction(sets []rpcrdma2.ResultSet, k int) *rpcrdma2.ResultItem {
	for i := range sets {
		if k < len(sets[i].Items) {
			return &sets[i].Items[k]
		}
		k -= len(sets[i].Items)
	}
	return nil
}

// tie has each result of a reply go with a write chunk, or with a direction of the
// call: its Into.
func (c *Call) tie(items []chunk.Item) {
	if c.transmitted {
		tie(items, c.group.req.Results, c.arguments())
		return
	}
	for i := range items { // the first with the first, and so on (RFC 8166 §4.3.2)
		items[i].Into = i
	}
}

// arguments is where the arguments are in the XDR stream of the call message. A
// call without any is an operation as a whole.
func (c *Call) arguments() xdr.Span {
	n := len(c.RPC.Args.Stream)
	for i := range c.RPC.Args.Items {
		n += xdr.Padded(c.RPC.Args.Items[i].Len())
	}
	if n == 0 {
		return xdr.Span{End: c.args}
	}
	return xdr.Span{Begin: c.args, End: c.args + n}
}

// tie has results go with directions; args is where the arguments of the call
// are, which are an operation themselves if they don't have several.
func tie(items []chunk.Item, sets []rpcrdma2.ResultSet, args xdr.Span) {
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

// tied finds the only set whose range an operation is in, and the number of its
// first direction; -1 is that there is none.
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

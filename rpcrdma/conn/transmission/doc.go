// Package transmission is the transmissions of version 2 (rtrext §9): a message goes as
// one Send, an XMTREQ or XMTRESP whose body says which items are not in the payload
// stream, or with extensions.continuation as several, of which each XMTCONT has more
// of that stream. Together the Sends of a message are a group.
//
// A Group divides a message of ours between its Sends, a Layout finds places in the
// peer's receives for items, a Gathering collects a group of the peer, and Items and
// Finder find the items that it placed in our receives. None of them allocates once
// its storage has grown.
//
// A caller's duties:
//
//   - send the transmissions of a group one after the other, with nothing between
//     them;
//   - leave the receives of a Gathering alone until End, and give them back then;
//   - end a Gathering with Interrupt when another message comes before its end.
package transmission

// Limit bounds the transmissions of one group with extensions.continuation on: those
// of a request that we take and those of a response that we make.
const Limit = 8

// Extend lengthens a list by one element, which keeps the storage that it had.
func Extend[T any](list *[]T) *T {
	if n := len(*list); n < cap(*list) {
		*list = (*list)[:n+1]
	} else {
		var zero T
		*list = append(*list, zero)
	}
	return &(*list)[len(*list)-1]
}

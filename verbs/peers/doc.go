// Package peers says what one peer is, and keeps bounded lists that no peer can
// fill.
//
// A [List] has room for a number of values, each of a peer. When it is full,
// a new value takes the room of the oldest value of the peer that has
// the most. A peer therefore loses a value only if no other peer has more,
// and a flood from one address takes room from that address alone.
//
// A [Queue] is a List between goroutines: values leave it in turns of their
// peers, so that a value waits for one of each other peer at most.
package peers

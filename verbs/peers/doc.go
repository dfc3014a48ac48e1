// Package peers defines what one peer is, and keeps bounded lists that no peer can fill.
//
// A [List] has room for a number of values, each of a peer. When it is full, a new value
// replaces the oldest value of the peer that has the most. So a peer loses a value only if
// no other peer has more, and a flood from one address replaces only values of that
// address.
//
// A [Queue] is a List between goroutines. Peers take turns in leaving it, so a value waits
// for at most one value of each other peer.
package peers

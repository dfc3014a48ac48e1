// Package connlimit decides which connections have a place on a port.
//
// A [Table] has a number of places. One key (a peer's address, a user, a certificate) may
// have only some of them, and some are reserved for one class of holders, such as admins.
// When a newcomer finds no free place, the table takes one from another connection:
//
//   - Half-open connections, which have done nothing yet, go first, the oldest before the
//     others, after HalfOpenGrace.
//   - Then the idlest connection goes, if it was idle for Grace and has no work in flight.
//   - Then a connection of the key with the most places goes, if that key has more places
//     than the newcomer's key would have, and the connection was idle or half-open for
//     FairGrace. If all connections of that key are in use, a connection of the next
//     largest key goes.
//   - A newcomer whose key is at its own limit takes a place of the same key, after
//     [Limits].KeyGrace if that is set: of the idlest, or if none is idle, of the oldest
//     half-open one.
//   - If no connection may be evicted, the newcomer is refused with a [RefusedError].
//
// So newcomers never take the place of a connection in use, and one key never takes more
// than its limit of places from others. A key with few places finds one, unless the keys
// with more keep all theirs in use.
//
// Tables form a tree: a connection needs a place in its table and in all tables above it.
// If the table of all ports is the Parent of a port's table, both limits apply.
//
// Places of different tables may have different weights, for example the files that their
// connections need, and a table above them may limit the sum ([Limits].Weight). A heavy newcomer
// takes several light places, or is refused.
//
// The package does no I/O, and reads the clock only in Run. Its caller must
//   - call Admit before it spends anything on a connection,
//   - call Touch when the connection does something that counts as use, and when work in flight ends,
//   - call Leave once, when the connection has freed everything,
//   - call Age by the time that Age returned last, or use Run for that.
//
// Admission costs O(log n), amortised: a connection that was in use is checked again after
// Grace at the earliest. Touch is one atomic store.
package connlimit

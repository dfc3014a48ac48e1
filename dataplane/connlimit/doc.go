// Package connlimit decides which connections have a place on a port.
//
// A [Table] has a number of places. One key (a peer's address, a user, a
// certificate) may have only some of them, and some are kept for one class of
// holders, such as admins. When a newcomer finds no place free, the table takes one
// from the connection that was idle for longest, rather than refusing the newcomer:
//
//   - Half-open connections, those that have done nothing yet, go first, the
//     oldest before the others, once they had HalfOpenGrace to do something.
//   - Then the idlest goes, if it was idle for Grace and has no work in flight.
//   - Then a connection of the key with the most places goes, if that is more than the
//     newcomer's key would have, and if it was idle or half-open for FairGrace. If all
//     connections of that key are in use, it is one of the next largest.
//   - A newcomer whose key is at its own limit takes a place of its key alone, after
//     [Limits].KeyGrace where that is set, half-open or not.
//   - If nobody may go, the newcomer is refused with a [RefusedError].
//
// A storm of newcomers therefore never takes the place of a connection that is in use, and
// one key never takes more than its limit of places from others. A key with few
// places finds one, unless the keys with more keep all of theirs in use.
//
// Tables stand in a tree: a connection needs a place in its table and
// in all above it. A port's table with the table of all ports as its Parent bounds both.
//
// The package does no I/O, and reads no clock but in Run. Its caller
//   - calls Admit before it spends anything on a connection,
//   - calls Touch when the connection does something that counts as use, and when work in flight ends,
//   - calls Leave once, when nothing of the connection is left,
//   - calls Age by the time that Age returned last, or has Run do so.
//
// Admission costs O(log n), amortised: a connection that was in use is looked at
// again at the earliest after Grace. Touch is one atomic store.
package connlimit

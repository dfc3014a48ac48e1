// Package loopback is a verbs provider inside one process: queue pairs that
// are connected through a Fabric, memory regions and windows with rights,
// bounds and random steering tags, and the completion semantics of a
// reliable connection. It is made for tests of the layers above: the fabric's
// one-way delay can be changed at any time, and Faults make connections,
// requests and completions go wrong on purpose.
//
// It has no goroutines of its own, but for the moment of a notification or of a
// completion queue's overflow. The goroutine that posts a request carries it out, or,
// when something has to wait, a timer of package time; all waiting is on channels. So
// whole clusters run under testing/synctest.
//
// Every queue is bounded by what its creator asked for, a wire by
// wireMessages and wireBytes; they take memory as they fill. A connection at
// rest is some 2 KiB.
//
// A caller's duties:
//
//   - the hooks of Faults are called with a connection's lock held: they must
//     not call into the provider;
//   - providers that are to reach each other share one Fabric.
//
// Lock order: listener, link, window, STag table. Locks of package driver are leaves.
package loopback

// Package loopback is a verbs provider inside one process. It has queue pairs connected
// through a Fabric, memory regions and windows with rights, bounds and random steering
// tags, and the completion semantics of a reliable connection. It is made for tests of
// higher layers: the fabric's one-way delay can be changed at any time, and Faults make
// connections and requests fail, and completions late, on purpose.
//
// It has no goroutines of its own, except briefly for a notification or the overflow of a
// completion queue. The goroutine that posts a request executes it. If something has to
// wait, a timer of package time continues. All waiting uses channels and wait groups, so
// whole clusters run in testing/synctest.
//
// Every queue is bounded by the size that its creator asked for, a wire by wireMessages and
// wireBytes. They allocate memory as they fill. An idle connection needs about 2 KiB.
//
// The caller must:
//
//   - not call the provider from the hooks of Faults, because they are called with a
//     connection's lock held;
//   - share one Fabric between providers that connect to each other.
//
// Lock order: link, then those of package driver.
package loopback

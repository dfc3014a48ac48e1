// Package siege runs hostile peers of rdmad, and innocent clients that must not
// notice them. Each attack is a process of its own against an rdmad of its own.
// The innocent clients work before, during and after the attack. A report has
// their latencies and errors, and rdmad's resources.
//
// `make siege` runs each phase for a minute and judges latencies. The test of
// this package runs the short form, which judges errors, memory, descriptors
// and log bytes, but no latency.
//
// Attackers have an iWARP codec of their own, so that they can send what no
// correct implementation sends. Where latencies are judged, they run only while
// nothing else does (SCHED_IDLE), because real attackers have their own
// processors.
package siege

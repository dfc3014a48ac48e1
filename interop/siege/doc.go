// Package siege runs hostile peers of rdmad, and innocent clients that must not
// notice them. Each attack runs as a process of its own against an rdmad of its
// own. Innocent clients work before the attack, during it and after it. A report
// has their latencies and errors, and the resources that rdmad used.
//
// `make siege` runs each phase for a minute and judges latencies. The test of this
// package is the short form: it counts errors, memory, descriptors and log bytes, and
// judges no latency.
//
// Attackers have a codec of their own for iWARP, so that they can send what no
// correct implementation sends. They run at the lowest priority, because a
// real attacker has processors of its own.
package siege

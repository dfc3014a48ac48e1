// Package benchmarks compares whole stacks: the echo service over
// RPC-over-RDMA on soft-iWARP with the same service over ONC RPC on TCP, on
// loopback, client and server in one process, in turns within one run, so
// that the ratio means something on any machine. `make bench` runs it.
//
// The benchmarks report calls or bytes per second of both and their ratio,
// RDMA by TCP: above 1, RDMA is the faster one.
package benchmarks

// Package reckoning compares what calls cost in the versions of RPC-over-RDMA
// and with the extensions of version 2. The same work is done in different ways
// and counted in Sends, RDMA operations, registrations, invalidations and round
// trips. The package defines the comparison, and makes docs/roundtrips.md from
// the figures under testdata.
//
// The figures in loopback.json are from a network with an exact delay. The test
// of rdmactl's package bench measures them, and fails when they change. The
// figures in guest.json are from softiwarp in a Linux guest whose network has a
// delay; TestVersion2 of package interop measures them.
package reckoning

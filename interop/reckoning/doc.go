// Package reckoning compares what calls cost in the versions of RPC-over-RDMA
// and with the extensions of version 2: the same work in different ways,
// counted in Sends, RDMA operations, registrations, invalidations and round
// trips. It says what is compared, and makes docs/roundtrips.md of the figures
// under testdata.
//
// Those in loopback.json are from a network whose delay is exact: the test of
// rdmactl's package bench measures them, and fails when they change. Those in
// guest.json are from softiwarp in a Linux guest whose network has a delay:
// TestVersion2 of package interop.
package reckoning

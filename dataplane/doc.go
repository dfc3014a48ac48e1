// Package dataplane runs listeners and the RPC-over-RDMA connections that
// they accept: it hands calls to services, gives each connection the settings
// that are in force for it, changes them while calls are in flight, and tells
// operators what goes on.
//
// It knows neither providers nor services by name; its owner brings them.
//
// A caller's duties:
//
//   - AddListener for all that must be bound, then Start;
//   - Shutdown before the providers and services are closed, and exactly once
//     for it to mean anything;
//   - to read a Subscription or Close it: one that fills up is dropped.
//
// Memory: a connection costs what package rpcrdma says, a goroutine, and a
// KiB here; a listener 28 KiB of histograms. Ids of connections are decimal
// numbers from 1 on and never used again.
package dataplane

// Package dataplane runs listeners and the RPC-over-RDMA connections that they accept. It
// gives calls to services, applies the settings of each connection, also while calls are in
// flight, and reports connections and events to operators.
//
// It knows neither providers nor services by name. Its owner supplies them.
//
// A caller's duties:
//
//   - PrepareListener for everything that must be bound, and Enter, then Start;
//   - Shutdown, exactly once, before the providers and services are closed;
//   - read each Subscription or Close it: a subscription whose buffer fills up ends.
//
// Memory: a connection costs what package rpcrdma says, a goroutine, and 1 KiB here. A
// listener has 28 KiB of histograms. Ids of connections are decimal numbers from 1 on and
// are never reused.
package dataplane

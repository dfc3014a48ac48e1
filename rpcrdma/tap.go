package rpcrdma

import "github.com/rdmad/rdmad/rpcrdma/transport"

// Tap lets an Observer watch one connection. Without an Observer, it costs one atomic load
// per event.
type Tap = transport.Tap

// Observer watches a connection. It must not wait.
type Observer = transport.Observer

// Operation is what an Observer sees: a Send made or received, or an RDMA Read or Write
// made. It is valid only during the call.
type Operation = transport.Operation

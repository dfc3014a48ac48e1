package rpcrdma

import "github.com/rdmad/rdmad/rpcrdma/transport"

// Tap is where somebody looks at one connection. While nobody does, it costs
// the connection one atomic load per event.
type Tap = transport.Tap

// Observer looks at what a connection does. It must not wait.
type Observer = transport.Observer

// Operation is what an Observer sees: a Send made or received, or an RDMA
// Read or Write made. It is valid during the call only.
type Operation = transport.Operation

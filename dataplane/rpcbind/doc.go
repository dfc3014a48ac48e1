// Package rpcbind keeps services registered with the machine's rpcbind (RFC
// 1833 §2): which program and version answers at which address of which
// transport.
//
// A Registrar registers when it is started, looks again at intervals, so that
// an rpcbind that was restarted learns of the services anew, tries on with
// growing pauses while rpcbind is away, and unregisters when it is closed. It
// speaks version 4 of the protocol, or 3 where that is all there is, over
// rpcbind's Unix socket or else over TCP.
//
// rpcbind holds one address for each program, version and transport. What
// stands there with another address belongs to somebody else: it is neither
// replaced nor removed, but told in the log, and taken over once it is gone.
//
// A caller's duties:
//
//   - register only addresses that it has bound itself: an entry with the same
//     address counts as its own;
//   - Close every Registrar that it has started.
package rpcbind

// Package rpcbind keeps services registered with the machine's rpcbind (RFC 1833 §2): the
// address at which a version of a program answers on each transport.
//
// A Registrar registers when it is started. It checks at intervals, so that a restarted
// rpcbind gets the registrations again, retries with growing pauses while rpcbind is
// unavailable, and unregisters when it is closed. It uses version 4 of the protocol, or
// version 3 if there is no other, over rpcbind's Unix socket or otherwise over TCP.
//
// rpcbind holds one address for each program, version and transport. An entry with another
// address belongs to another service: the Registrar neither replaces nor removes it, but
// logs it, and registers once the entry is gone.
//
// The caller must:
//
//   - register only addresses that it has bound itself: an entry with the same address
//     counts as its own;
//   - Close every Registrar that it has started.
package rpcbind

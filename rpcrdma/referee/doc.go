// Package referee judges one RPC-over-RDMA connection from outside, from the
// specifications alone: RFC 5666, RFC 8166, RFC 8167, RFC 8797, version 2 and
// its extensions. It shares no code with the implementation that it judges
// (packages conn, credit, chunk, ulb and wire). If the two read a specification
// differently, one of them is wrong, and a test shows it.
//
// The package does no I/O. The caller passes events in the order in which they
// were seen; the package reports violations. docs/referee.md lists the rules,
// each with its section.
//
// The caller's duties:
//
//   - make one Referee for each connection and give it events from one
//     goroutine at a time;
//   - call Connect first, if the handshake was seen;
//   - call Gap when events are missing. The rules that need the missed events
//     are silent from then on;
//   - leave Event.Data unchanged while Observe runs. The Referee keeps no part
//     of it.
package referee

// Package referee judges one RPC-over-RDMA connection from outside, from the
// texts alone: RFC 5666, RFC 8166, RFC 8167, RFC 8797, version 2 and its
// extensions. It shares no code with the protocol it judges (packages conn,
// credit, chunk, ulb and wire): where the two readings of a text differ, one of
// them is wrong, and a test says so.
//
// It is sans-I/O. Events go in, in the order in which they were seen;
// violations come out. docs/referee.md lists the rules, each with its section.
//
// A caller's duties:
//
//   - make one Referee for each connection and give it events from one
//     goroutine at a time;
//   - give Connect first, if the handshake was seen;
//   - say with Gap that events are missing. The rules that need what was
//     missed are silent from then on;
//   - leave Event.Data unchanged during the call of Observe; the Referee keeps
//     no part of it.
package referee

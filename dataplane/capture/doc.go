// Package capture reads a packet capture and lets a referee judge each
// RPC-over-RDMA connection in it.
//
// A capture is pcap or pcapng, from tcpdump, Wireshark, QEMU or rdmad. It is
// read once, from the front, so that a pipe does. Packets become TCP segments;
// a flow puts the segments of both directions in an order in which every
// message comes after what it may depend on; a stream cuts the bytes of one
// direction into FPDUs (RFC 5044); a link makes RDMA messages of the FPDUs'
// DDP segments (RFC 5041, RFC 5040) and gives them to a referee.Referee. A
// connection is found by its MPA request frame, on any port, or, when the
// capture begins later, by a Send in it.
//
// Bytes that the capture lacks are no violation: bytes that the other side
// acknowledged and the capture does not have, packets cut by a snap length,
// and what the capturing program says it dropped. Within the payload of one
// FPDU missing bytes cost only that payload. Otherwise the referee hears of a
// gap, and the direction continues at the next Send that can be found.
//
// Everything is bounded: see the constants in limits.go. A connection that
// exceeds a bound is given up, and the Report says so.
package capture

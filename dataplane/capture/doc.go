// Package capture reads a packet capture and passes each RPC-over-RDMA
// connection in it to a referee.
//
// A capture is a pcap or pcapng file from tcpdump, Wireshark, QEMU or rdmad.
// The package reads it once from the front, so a pipe works as well. It decodes
// packets in four steps:
//
//   - A flow orders the TCP segments of both directions. Every message then
//     comes after the messages that it may depend on.
//   - A stream divides the bytes of one direction into FPDUs (RFC 5044).
//   - A link assembles RDMA messages from the DDP segments in the FPDUs
//     (RFC 5041, RFC 5040).
//   - A referee.Referee judges the messages.
//
// A connection is found by its MPA request frame, on any port. If the capture
// begins later, it is found by one of its Sends.
//
// Missing bytes are no violation. Bytes are missing if the other side
// acknowledged them and the capture does not have them, if a snap length cut
// the packets, or if the capturing program reports dropped packets. Bytes that
// are missing within the payload of one FPDU cost only that payload. Otherwise
// the referee gets a gap, and the direction continues at the next Send that is
// found.
//
// All memory is bounded; see the constants in limits.go. If a connection
// exceeds a bound, it is given up, and the Report says so.
package capture

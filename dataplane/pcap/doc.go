// Package pcap writes what connections did as a capture file that Wireshark
// decodes.
//
// No provider hands out its packets, and a loopback has none. The packets
// here are made from the events of package trace, as iWARP would carry them
// (RFC 5044, 5041, 5040): Ethernet, IP and TCP with the connection's
// addresses, a handshake with the private data that both sides sent, then one
// FPDU with CRC32C in each TCP segment. An RDMA Write becomes tagged segments,
// an RDMA Read a Read Request and its Response. Sequence numbers have no gaps,
// whatever was dropped: a missing event is a message that never was.
//
// A packet of which bytes were left behind by the snap length is shorter in
// the file than it says it was; it has neither checksum nor CRC.
//
// A caller's duties: Write events in their order from one goroutine, then
// Flush.
package pcap

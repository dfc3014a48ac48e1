// Package pcap writes the traffic of connections as a capture file for Wireshark.
//
// Providers do not return their packets, and loopback has none. This package makes packets
// from the events of package trace, as iWARP would carry them (RFC 5044, 5041, 5040):
// Ethernet, IP and TCP with the connection's addresses, a handshake with the private data
// that both sides sent, then one FPDU with CRC32C in each TCP segment. An RDMA Write
// becomes tagged segments, an RDMA Read a Read Request and its Response. Sequence numbers
// have no gaps: for the file, a dropped event never happened.
//
// If the snap length cuts a packet, it is shorter in the file than its stated length, and
// has neither checksum nor CRC.
//
// The caller must Write events in order from one goroutine, then Flush.
package pcap

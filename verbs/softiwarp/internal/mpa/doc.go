// Package mpa is Marker PDU Aligned framing for TCP (RFC 5044) with the
// enhanced connection set-up of RFC 6581, without any I/O: request and reply
// frames, the enhanced data in their private data, and FPDUs with CRC32C.
//
// Markers are never used: a peer that requires them is refused
// (RFC 5044 §7.1: they are an option of the receiver).
//
// The caller's duties:
//
//   - a decoded Frame's PrivateData aliases the input and lives as long as it;
//   - an FPDU's ULPDU aliases the input as well;
//   - lengths and counts come back checked, their meaning is the caller's.
package mpa

// Package mpa implements Marker PDU Aligned framing for TCP (RFC 5044) with the enhanced
// connection set-up of RFC 6581, without I/O: request and reply frames, the enhanced data
// in their private data, and FPDUs with CRC32C.
//
// Markers are never used. They are an option of the receiver (RFC 5044 §7.1), and a peer
// that requires them is refused.
//
// Notes for the caller:
//
//   - The PrivateData of a decoded Frame aliases the input, and so does the ULPDU of an FPDU.
//   - The package checks lengths and counts. The caller checks their meaning.
package mpa

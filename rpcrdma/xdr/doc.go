// Package xdr encodes and decodes External Data Representation (RFC 4506) on
// byte slices: big-endian items in units of four bytes.
//
// Encoding appends to the caller's slice. Decoding walks over the caller's
// bytes with a Decoder, whose error sticks to the first failure, so that a
// structure is read field by field and checked once. Neither allocates, but
// for Decoder.String.
//
// A caller's duties:
//
//   - check Decoder.Err before using decoded values: after a failure they are
//     zero, which is a valid value too;
//   - give every opaque, string and array the maximum that its protocol
//     states: a length is checked against it and against the bytes present
//     before anything is sliced;
//   - decoded opaques alias the decoded bytes: copy what must outlive them.
package xdr

// Unit is the size of a basic block in bytes (RFC 4506 §3); every item takes
// a multiple of it.
const Unit = 4

// Pad is the number of roundup bytes (0 to 3) that follow n bytes of opaque
// data. n is not negative.
func Pad(n int) int { return -n & (Unit - 1) }

// Padded is n with its roundup bytes.
func Padded(n int) int { return n + Pad(n) }

// OpaqueSize is the encoded size of a variable-length opaque of n bytes: its
// length word, the bytes and their roundup.
func OpaqueSize(n int) int { return Unit + Padded(n) }

// Package xdr encodes and decodes External Data Representation (RFC 4506) on byte slices:
// big-endian items in units of four bytes.
//
// Encoding appends to the caller's slice. Decoding reads the caller's bytes with a Decoder.
// It keeps the first error, so that a structure is read field by field and checked once.
// Neither allocates, except Decoder.String.
//
// The caller must:
//
//   - check Decoder.Err before using decoded values. After a failure they are zero, which is
//     also a valid value;
//   - give every opaque, string and array the maximum that its protocol states. A length is
//     checked against it and against the available bytes before anything is sliced;
//   - copy decoded opaques that must outlive the decoded bytes, because they alias them.
package xdr

// Unit is the size of a basic block in bytes (RFC 4506 §3). The size of every item is a
// multiple of it.
const Unit = 4

// Pad returns the number of roundup bytes (0 to 3) that follow n bytes of opaque
// data. n is not negative.
func Pad(n int) int { return -n & (Unit - 1) }

// Padded returns n plus its roundup bytes.
func Padded(n int) int { return n + Pad(n) }

// OpaqueSize returns the encoded size of a variable-length opaque of n bytes: its
// length word, the bytes and their roundup.
func OpaqueSize(n int) int { return Unit + Padded(n) }

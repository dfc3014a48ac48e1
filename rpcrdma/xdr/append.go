package xdr

import "encoding/binary"

// zeros are the roundup bytes (RFC 4506 §4.9).
var zeros [Unit]byte

// AppendUint32 appends an unsigned integer, or an enum (RFC 4506 §4.2, §4.3).
func AppendUint32(dst []byte, v uint32) []byte {
	return binary.BigEndian.AppendUint32(dst, v)
}

// AppendUint32s appends unsigned integers or enums, one after the other.
func AppendUint32s(dst []byte, vs ...uint32) []byte {
	for _, v := range vs {
		dst = binary.BigEndian.AppendUint32(dst, v)
	}
	return dst
}

// AppendUint64 appends an unsigned hyper integer (RFC 4506 §4.5).
func AppendUint64(dst []byte, v uint64) []byte {
	return binary.BigEndian.AppendUint64(dst, v)
}

// AppendBool appends a boolean (RFC 4506 §4.4).
func AppendBool(dst []byte, v bool) []byte {
	if v {
		return AppendUint32(dst, 1)
	}
	return AppendUint32(dst, 0)
}

// AppendOpaque appends variable-length opaque data: length, bytes, roundup
// (RFC 4506 §4.10).
func AppendOpaque(dst, b []byte) []byte {
	return AppendFixed(AppendUint32(dst, uint32(len(b))), b)
}

// AppendFixed appends fixed-length opaque data: bytes and roundup, without a
// length (RFC 4506 §4.9).
func AppendFixed(dst, b []byte) []byte {
	return AppendPad(append(dst, b...), len(b))
}

// AppendString appends a string, encoded as variable-length opaque data
// (RFC 4506 §4.11).
func AppendString(dst []byte, s string) []byte {
	dst = AppendUint32(dst, uint32(len(s)))
	return AppendPad(append(dst, s...), len(s))
}

// AppendPad appends the zero bytes that round n bytes up.
func AppendPad(dst []byte, n int) []byte {
	return append(dst, zeros[:Pad(n)]...)
}

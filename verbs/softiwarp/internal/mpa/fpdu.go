package mpa

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
)

const (
	// LengthSize is the ULPDU length field before every ULPDU, in bytes.
	LengthSize = 2
	// CRCSize is the CRC field after the padding, in bytes. The field is always present.
	CRCSize = 4
	// MaxULPDU is the largest ULPDU, in bytes.
	MaxULPDU = 1<<16 - 1
	// MaxTrailer is the most bytes of padding and CRC after a ULPDU.
	MaxTrailer = 3 + CRCSize
	// MaxFPDU is the largest FPDU, in bytes (RFC 5044 §4.1).
	MaxFPDU = LengthSize + MaxULPDU + MaxTrailer
)

// ErrCRC means that an FPDU's CRC32C does not match.
var ErrCRC = errors.New("mpa: CRC mismatch")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// padding returns the number of zero bytes that align length field and ULPDU to 4.
func padding(ulpdu int) int {
	return -(LengthSize + ulpdu) & 3
}

// FPDUSize returns the length in bytes of the FPDU around a ULPDU of n bytes.
func FPDUSize(n int) int {
	return LengthSize + n + padding(n) + CRCSize
}

// Checksum continues the CRC32C crc over b. crc is 0 at the start of an FPDU.
func Checksum(crc uint32, b []byte) uint32 {
	return crc32.Update(crc, castagnoli, b)
}

// AppendTrailer appends the padding and CRC field of an FPDU whose ULPDU has n bytes. crc
// is the checksum of the length field and the ULPDU. Without useCRC the CRC field is zero,
// and the receiver ignores it (RFC 5044 §4.4).
func AppendTrailer(b []byte, n int, crc uint32, useCRC bool) []byte {
	pad := padding(n)
	b = append(b, 0, 0, 0)[:len(b)+pad]
	if !useCRC {
		return append(b, 0, 0, 0, 0)
	}
	crc = Checksum(crc, b[len(b)-pad:])
	// RFC 3720 §12.1 sends the least significant byte first.
	return binary.LittleEndian.AppendUint32(b, crc)
}

// AppendFPDU appends one whole FPDU that contains ulpdu. ulpdu has at most MaxULPDU bytes.
func AppendFPDU(b, ulpdu []byte, useCRC bool) []byte {
	start := len(b)
	b = binary.BigEndian.AppendUint16(b, uint16(len(ulpdu)))
	b = append(b, ulpdu...)
	var crc uint32
	if useCRC {
		crc = Checksum(0, b[start:])
	}
	return AppendTrailer(b, len(ulpdu), crc, useCRC)
}

// DecodeFPDU finds the FPDU at the start of b. It returns the ULPDU, which aliases b, and
// the length of the FPDU. ErrShort means that more bytes are needed: n is then the length
// of the whole FPDU, or 0 if the length field is incomplete. ErrCRC is returned only with
// useCRC.
func DecodeFPDU(b []byte, useCRC bool) (ulpdu []byte, n int, err error) {
	if len(b) < LengthSize {
		return nil, 0, ErrShort
	}
	length := int(binary.BigEndian.Uint16(b))
	n = FPDUSize(length)
	if len(b) < n {
		return nil, n, ErrShort
	}
	if useCRC {
		end := n - CRCSize
		if Checksum(0, b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
			return nil, n, ErrCRC
		}
	}
	return b[LengthSize : LengthSize+length], n, nil
}

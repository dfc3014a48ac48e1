// Package iwarp has the headers of iWARP (RFC 5044, RFC 5041, RFC 5040) for programs that write
// or read the bytes of other programs' connections: capture files and attacks. Provider
// softiwarp has its own.
package iwarp

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes of headers, in bytes (RFC 5044 §3, RFC 5041 §4, RFC 5040 §4).
const (
	LengthSize      = 2
	CRCSize         = 4
	TaggedSize      = 14
	UntaggedSize    = 18
	ReadRequestSize = 28
)

// Opcodes (RFC 5040 §4.3).
const (
	OpWrite = iota
	OpReadRequest
	OpReadResponse
	OpSend
	OpSendInv
	OpSendSE
	OpSendSEInv
	OpTerminate
)

// Queues of untagged messages (RFC 5040 §5.2).
const (
	QueueSend = iota
	QueueReadRequest
	QueueTerminate
	Queues
)

// Bits of the first byte of a DDP header (RFC 5041 §4.1).
const (
	Tagged = 0x80
	Last   = 0x40
)

const (
	ddpVersion   = 1
	rdmapVersion = 1 << 6
)

// Keys and flags of MPA frames (RFC 5044 §7.1.1, RFC 6581 §4).
const (
	MPARequest = "MPA ID Req Frame"
	MPAReply   = "MPA ID Rep Frame"

	MPAMarkers  = 0x80
	MPACRC      = 0x40
	MPAReject   = 0x20
	MPAEnhanced = 0x10
	// Bits below are reserved. Newer Linux kernels set 0x08 to say that they
	// take FPDUs which are larger than a TCP segment.

	MPAFrameSize   = 20
	MPAMostPrivate = 512

	mpaRevision = 1
)

// Castagnoli is the table of CRC32C.
var Castagnoli = crc32.MakeTable(crc32.Castagnoli)

// AppendFPDU appends an FPDU whose ULPDU has n bytes. known has the first of them. If it has
// all, CRC32C follows; otherwise the FPDU ends there.
func AppendFPDU(dst, known []byte, n int) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	dst = append(dst, known...)
	if len(known) < n {
		return dst
	}
	for (len(dst)-at)%4 != 0 {
		dst = append(dst, 0)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], Castagnoli))
}

// FPDUSize returns the size of an FPDU with a ULPDU of n bytes.
func FPDUSize(n int) int { return (LengthSize+n+3)&^3 + CRCSize }

// AppendTagged appends the header of a tagged segment.
func AppendTagged(dst []byte, op byte, last bool, stag uint32, offset uint64) []byte {
	dst = append(dst, control(Tagged, last), rdmapVersion|op)
	dst = binary.BigEndian.AppendUint32(dst, stag)
	return binary.BigEndian.AppendUint64(dst, offset)
}

// AppendUntagged appends the header of an untagged segment.
func AppendUntagged(dst []byte, op byte, last bool, invalidate, queue, msn, offset uint32) []byte {
	dst = append(dst, control(0, last), rdmapVersion|op)
	dst = binary.BigEndian.AppendUint32(dst, invalidate)
	dst = binary.BigEndian.AppendUint32(dst, queue)
	dst = binary.BigEndian.AppendUint32(dst, msn)
	return binary.BigEndian.AppendUint32(dst, offset)
}

func control(tagged byte, last bool) byte {
	c := tagged | ddpVersion
	if last {
		c |= Last
	}
	return c
}

// ReadRequest is the payload of a Read Request (RFC 5040 §4.4).
type ReadRequest struct {
	SinkTag   uint32
	Sink      uint64
	Size      uint32
	SourceTag uint32
	Source    uint64
}

// Append appends the request.
func (r *ReadRequest) Append(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint32(dst, r.SinkTag)
	dst = binary.BigEndian.AppendUint64(dst, r.Sink)
	dst = binary.BigEndian.AppendUint32(dst, r.Size)
	dst = binary.BigEndian.AppendUint32(dst, r.SourceTag)
	return binary.BigEndian.AppendUint64(dst, r.Source)
}

// DecodeReadRequest decodes a request from ReadRequestSize bytes.
func DecodeReadRequest(b []byte) ReadRequest {
	return ReadRequest{
		SinkTag: binary.BigEndian.Uint32(b), Sink: binary.BigEndian.Uint64(b[4:]), Size: binary.BigEndian.Uint32(b[12:]),
		SourceTag: binary.BigEndian.Uint32(b[16:]), Source: binary.BigEndian.Uint64(b[20:]),
	}
}

// AppendMPA appends a request or reply frame that asks for CRC and no markers
// (RFC 5044 §7.1).
func AppendMPA(dst []byte, key string, private []byte) []byte {
	private = private[:min(len(private), MPAMostPrivate)]
	dst = append(dst, key...)
	dst = append(dst, MPACRC, mpaRevision)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(private)))
	return append(dst, private...)
}

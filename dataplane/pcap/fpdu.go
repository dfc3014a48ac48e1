package pcap

import (
	"encoding/binary"
	"hash/crc32"
)

// Sizes of iWARP headers, in bytes (RFC 5044 §3, RFC 5041 §4, RFC 5040 §4).
const (
	lengthSize   = 2
	crcSize      = 4
	taggedSize   = 14
	untaggedSize = 18
	readSize     = 28
	// maxULPDU is the longest ULPDU whose FPDU fits one segment: with its
	// length word a multiple of 4.
	maxULPDU = (maxSegment-crcSize)&^3 - lengthSize
)

// Opcodes (RFC 5040 §4.3).
const (
	opWrite        = 0
	opReadRequest  = 1
	opReadResponse = 2
	opSend         = 3
	opSendInv      = 4
)

// Queues of untagged messages (RFC 5040 §5.2).
const (
	queueSend        = 0
	queueReadRequest = 1
)

// Control fields.
const (
	ddpVersion   = 1
	ddpLast      = 0x40
	ddpTagged    = 0x80
	rdmapVersion = 1 << 6
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendFPDU appends an FPDU whose ULPDU has n bytes, of which the first are
// known: all, and CRC32C follows, or not, and it ends there.
func appendFPDU(dst, known []byte, n int) []byte {
	at := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, uint16(n))
	dst = append(dst, known...)
	if len(known) < n {
		return dst
	}
	for (len(dst)-at)%4 != 0 {
		dst = append(dst, 0)
	}
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// fpduSize is the size of an FPDU with a ULPDU of n bytes.
func fpduSize(n int) int { return (lengthSize+n+3)&^3 + crcSize }

// appendTagged appends the header of a tagged segment.
func appendTagged(dst []byte, op byte, last bool, stag uint32, offset uint64) []byte {
	dst = append(dst, control(ddpTagged, last), rdmapVersion|op)
	dst = binary.BigEndian.AppendUint32(dst, stag)
	return binary.BigEndian.AppendUint64(dst, offset)
}

// appendUntagged appends the header of an untagged segment.
func appendUntagged(dst []byte, op byte, last bool, invalidate, queue, msn, offset uint32) []byte {
	dst = append(dst, control(0, last), rdmapVersion|op)
	dst = binary.BigEndian.AppendUint32(dst, invalidate)
	dst = binary.BigEndian.AppendUint32(dst, queue)
	dst = binary.BigEndian.AppendUint32(dst, msn)
	return binary.BigEndian.AppendUint32(dst, offset)
}

func control(tagged byte, last bool) byte {
	c := tagged | ddpVersion
	if last {
		c |= ddpLast
	}
	return c
}

// appendReadRequest appends the payload of a Read Request (RFC 5040 §4.4).
func appendReadRequest(dst []byte, sinkTag uint32, sink uint64, n, sourceTag uint32, source uint64) []byte {
	dst = binary.BigEndian.AppendUint32(dst, sinkTag)
	dst = binary.BigEndian.AppendUint64(dst, sink)
	dst = binary.BigEndian.AppendUint32(dst, n)
	dst = binary.BigEndian.AppendUint32(dst, sourceTag)
	return binary.BigEndian.AppendUint64(dst, source)
}

// appendMPA appends a request or reply frame that asks for CRC and no markers
// (RFC 5044 §7.1).
func appendMPA(dst []byte, key string, private []byte) []byte {
	private = private[:min(len(private), maxPrivate)]
	dst = append(dst, key...)
	dst = append(dst, mpaCRC, mpaRevision)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(private)))
	return append(dst, private...)
}

const (
	mpaRequest  = "MPA ID Req Frame"
	mpaReply    = "MPA ID Rep Frame"
	mpaCRC      = 0x40
	mpaRevision = 1
	maxPrivate  = 512
)

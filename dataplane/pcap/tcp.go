package pcap

import (
	"encoding/binary"
	"math/bits"
	"net/netip"

	"github.com/rdmad/rdmad/dataplane/iwarp"
)

// Sizes of the headers around an FPDU, and of the packets, in bytes.
const (
	ip4Size = 20
	tcpSize = 20
	// maxSegment is what one TCP segment carries: that of jumbo frames of
	// 9000 bytes.
	maxSegment = 8960
	// maxULPDU is the longest ULPDU whose FPDU fits one segment: with its
	// length word a multiple of 4.
	maxULPDU = (maxSegment-iwarp.CRCSize)&^3 - iwarp.LengthSize
)

// TCP flags.
const (
	flagSYN = 0x02
	flagPSH = 0x08
	flagACK = 0x10
)

// side is one end of a connection.
type side struct {
	addr netip.AddrPort
	mac  [6]byte
	seq  uint32    // next sequence number
	msn  [2]uint32 // of untagged messages sent, by queue (RFC 5041 §5.2)
}

// segment is a TCP segment of which only the first bytes of the payload may be known.
type segment struct {
	from, to *side
	flags    byte
	options  []byte
	payload  []byte
	length   int // of the whole payload, known or not
}

// append appends the packet. Checksums over unknown bytes are 0.
func (s *segment) append(dst []byte) []byte {
	dst = append(dst, s.to.mac[:]...)
	dst = append(dst, s.from.mac[:]...)
	tcpLength := tcpSize + len(s.options) + s.length
	var sum uint64
	if s.from.addr.Addr().Is4() {
		dst, sum = s.appendIP4(dst, tcpLength)
	} else {
		dst, sum = s.appendIP6(dst, tcpLength)
	}
	at := len(dst)
	dst = binary.BigEndian.AppendUint16(dst, s.from.addr.Port())
	dst = binary.BigEndian.AppendUint16(dst, s.to.addr.Port())
	dst = binary.BigEndian.AppendUint32(dst, s.from.seq)
	ack := uint32(0)
	if s.flags&flagACK != 0 {
		ack = s.to.seq
	}
	dst = binary.BigEndian.AppendUint32(dst, ack)
	dst = append(dst, byte(tcpSize+len(s.options))<<2, s.flags, 0xff, 0xff, 0, 0, 0, 0)
	dst = append(dst, s.options...)
	dst = append(dst, s.payload...)
	if len(s.payload) == s.length {
		binary.BigEndian.PutUint16(dst[at+16:], checksum(dst[at:], sum))
	}
	s.from.seq += uint32(s.length)
	if s.flags&flagSYN != 0 {
		s.from.seq++
	}
	return dst
}

const (
	protoTCP = 6
	hops     = 64
)

// appendIP4 appends type and header, and returns the sum of the pseudo header (RFC 9293 §3.1).
func (s *segment) appendIP4(dst []byte, length int) ([]byte, uint64) {
	from, to := s.from.addr.Addr().As4(), s.to.addr.Addr().As4()
	dst = append(dst, 0x08, 0x00)
	at := len(dst)
	dst = append(dst, 0x45, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(ip4Size+length))
	dst = append(dst, 0, 0, 0x40, 0, hops, protoTCP, 0, 0) // don't fragment
	dst = append(dst, from[:]...)
	dst = append(dst, to[:]...)
	binary.BigEndian.PutUint16(dst[at+10:], checksum(dst[at:], 0))
	return dst, uint64(^checksum(dst[at+12:], protoTCP+uint64(length)))
}

func (s *segment) appendIP6(dst []byte, length int) ([]byte, uint64) {
	from, to := s.from.addr.Addr().As16(), s.to.addr.Addr().As16()
	dst = append(dst, 0x86, 0xdd, 0x60, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(length))
	dst = append(dst, protoTCP, hops)
	at := len(dst)
	dst = append(dst, from[:]...)
	dst = append(dst, to[:]...)
	return dst, uint64(^checksum(dst[at:], protoTCP+uint64(length)))
}

// checksum returns the checksum of b and of what adds up to sum (RFC 1071). It adds four words at a time.
func checksum(b []byte, sum uint64) uint16 {
	var carry uint64
	for ; len(b) >= 8; b = b[8:] {
		sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(b), carry)
	}
	var rest [8]byte // its last byte is 0, so that the last carry fits the sum
	copy(rest[:], b)
	sum, carry = bits.Add64(sum, binary.BigEndian.Uint64(rest[:]), carry)
	for sum += carry; sum > 0xffff; {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

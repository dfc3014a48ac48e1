package capture

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

// Sizes of MPA, in bytes (RFC 5044 §3, §4.3).
const (
	lengthSize     = 2
	crcSize        = 4
	markerSize     = 4
	markerInterval = 512
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// fpduSize is the size of an FPDU with a ULPDU of n bytes, without markers.
func fpduSize(n int) int { return (lengthSize+n+3)&^3 + crcSize }

// checking is what is known of CRCs on a connection.
type checking uint8

const (
	crcUnknown checking = iota // the handshake was not seen
	crcOff
	crcOn
)

// ulpdu is the content of an FPDU of which the first bytes are known.
type ulpdu struct {
	data []byte // known
	size int
}

// segments takes the FPDUs of a stream.
type segments interface {
	// segment takes the next ULPDU, and says whether it can be one.
	segment(u ulpdu) bool
	// badCRC takes the place of segment when the CRC is wrong.
	badCRC(got, want uint32)
	// lost says that FPDUs are missing here.
	lost()
	// begins says whether a ULPDU, of which at least the header is there, may
	// be the one to continue with after a loss.
	begins(u []byte, size int) bool
	// endless says that nothing was found for too long.
	endless(bytes int)
}

// stream cuts the bytes of one direction into FPDUs.
type stream struct {
	to  segments
	crc checking
	// markers says that the stream has markers (RFC 5044 §4.3). at is the
	// position in the stream, from the first FPDU on, markers included.
	markers bool
	at      uint64
	marks   []mark // in the FPDU that buf begins with

	// buf begins with an FPDU. known is how many bytes of it the capture has,
	// or all that are there so far; the others are 0.
	buf   []byte
	known int
	holed bool // known is less than what is there

	// unchecked is the number of bytes whose markers are not known, after a
	// search.
	unchecked int
	searching bool // for the next FPDU
	skipped   int  // bytes, while searching
	limit     int  // of skipped
}

// mark is a marker at a position of buf, before the byte there.
type mark struct {
	at   int
	word [markerSize]byte
	n    int // bytes of it so far
}

// bytes implements receiver.
func (s *stream) bytes(b []byte) {
	for len(b) > 0 {
		n := len(b)
		if s.markers {
			phase := int(s.at % markerInterval)
			if phase < markerSize {
				n = min(n, markerSize-phase)
				s.mark(b[:n], phase)
				s.at += uint64(n)
				b = b[n:]
				continue
			}
			n = min(n, markerInterval-phase)
		}
		s.at += uint64(n)
		s.take(b[:n], n)
		b = b[n:]
	}
}

// mark notes bytes of a marker, or with nil that they are missing.
func (s *stream) mark(b []byte, phase int) {
	if s.searching {
		return
	}
	if phase == 0 || len(s.marks) == 0 {
		s.marks = append(s.marks, mark{at: len(s.buf)})
	}
	m := &s.marks[len(s.marks)-1]
	m.n += copy(m.word[phase:], b)
}

// missing implements receiver.
func (s *stream) missing(n int) {
	if !s.markers {
		s.at += uint64(n)
		s.take(nil, n)
		return
	}
	for n > 0 && !s.searching {
		phase := int(s.at % markerInterval)
		if phase < markerSize {
			m := min(n, markerSize-phase)
			s.mark(nil, phase)
			s.at += uint64(m)
			n -= m
			continue
		}
		m := min(n, markerInterval-phase)
		s.at += uint64(m)
		s.take(nil, m)
		n -= m
	}
	if n > 0 {
		s.at += uint64(n)
		s.take(nil, n)
	}
}

// take takes n bytes without markers, b or missing ones, until nobody takes
// what comes of them.
func (s *stream) take(b []byte, n int) {
	for n > 0 && s.to != nil {
		if s.searching {
			b, n = s.search(b, n)
			continue
		}
		m := min(n, s.wanted())
		if b == nil {
			s.pad(m)
		} else {
			if !s.holed {
				s.known += m
			}
			s.buf = append(s.buf, b[:m]...)
			b = b[m:]
		}
		n -= m
		s.complete()
	}
}

// pad puts missing bytes into the FPDU.
func (s *stream) pad(n int) {
	s.holed = true
	s.buf = append(s.buf, make([]byte, n)...)
}

// wanted is the number of bytes that the FPDU lacks, or its length word.
func (s *stream) wanted() int {
	if len(s.buf) < lengthSize {
		return lengthSize - len(s.buf)
	}
	return fpduSize(int(binary.BigEndian.Uint16(s.buf))) - len(s.buf)
}

// complete hands the FPDU on if it is whole.
func (s *stream) complete() {
	if len(s.buf) < lengthSize {
		return
	}
	if s.holed && s.known < lengthSize {
		s.lose()
		return
	}
	if s.wanted() > 0 {
		return
	}
	n := int(binary.BigEndian.Uint16(s.buf))
	good := true
	if got, want, ok := s.check(); ok {
		good = s.to.segment(ulpdu{data: s.buf[lengthSize:min(s.known, lengthSize+n)], size: n})
	} else {
		s.to.badCRC(got, want)
	}
	s.unchecked = max(s.unchecked-len(s.buf), 0)
	s.reset()
	if !good {
		s.lose()
	}
}

func (s *stream) reset() {
	s.buf, s.known, s.holed, s.marks = s.buf[:0], 0, false, s.marks[:0]
}

// check verifies the CRC of a whole FPDU.
func (s *stream) check() (got, want uint32, ok bool) {
	if s.crc == crcOff || s.holed || s.unchecked > 0 {
		return 0, 0, true
	}
	end := len(s.buf) - crcSize
	got, want = binary.LittleEndian.Uint32(s.buf[end:]), crc32.Checksum(s.buf[:end], castagnoli)
	if got == want || s.marked(got) {
		return got, want, true
	}
	return got, want, s.crc == crcUnknown
}

// marked checks the CRC with the markers that are in the FPDU (RFC 5044 §4.4).
// Implementations differ on those at its edges.
func (s *stream) marked(got uint32) bool {
	end := len(s.buf) - crcSize
	for _, edges := range [...][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
		sum, from := uint32(0), 0
		for i := range s.marks {
			m := &s.marks[i]
			if m.n < markerSize {
				return true // not all of it is in the capture
			}
			if m.at == 0 && !edges[0] || m.at == end && !edges[1] || m.at > end {
				continue
			}
			sum = crc32.Update(crc32.Update(sum, castagnoli, s.buf[from:m.at]), castagnoli, m.word[:])
			from = m.at
		}
		if len(s.marks) > 0 && crc32.Update(sum, castagnoli, s.buf[from:end]) == got {
			return true
		}
	}
	return false
}

// lose begins the search for the next FPDU.
func (s *stream) lose() {
	s.reset()
	s.searching, s.skipped = true, 0
	if s.limit == 0 {
		s.limit = maxLost
	}
	s.to.lost()
}

// search takes n bytes, b or missing ones, and looks for an FPDU to continue
// with. It gives back what begins with it. Bytes before and after missing ones
// are not looked at together.
func (s *stream) search(b []byte, n int) ([]byte, int) {
	s.skipped += n
	if b == nil {
		s.buf = s.buf[:0]
	} else {
		s.buf = append(s.buf, b[:n]...)
	}
	at, found := s.find()
	if found {
		rest := slices.Clone(s.buf[at:])
		s.reset()
		s.searching = false
		if s.markers {
			s.unchecked = len(rest)
		}
		return rest, len(rest)
	}
	s.buf = append(s.buf[:0], s.buf[at:]...)
	if s.skipped > s.limit {
		s.buf = nil
		s.to.endless(s.skipped)
	}
	return nil, 0
}

// enough is how much of an FPDU must be there to recognise one: with the
// fixed part of an RPC-over-RDMA header.
const enough = lengthSize + untaggedSize + prefixSize

// find gives the position of an FPDU in buf, or of what may become one when
// more has come.
func (s *stream) find() (at int, found bool) {
	for at = 0; at+enough <= len(s.buf); at++ {
		b := s.buf[at:]
		n := int(binary.BigEndian.Uint16(b))
		if !s.to.begins(b[lengthSize:min(len(b), lengthSize+n)], n) {
			continue
		}
		if s.crc == crcOff {
			return at, true
		}
		size := fpduSize(n)
		if len(b) < size {
			return at, false
		}
		switch right := binary.LittleEndian.Uint32(b[size-crcSize:]) == crc32.Checksum(b[:size-crcSize], castagnoli); {
		case right:
			s.crc = crcOn
			return at, true
		case s.crc == crcUnknown:
			s.crc = crcOff
			return at, true
		case s.markers: // a marker may be in it
			return at, true
		}
	}
	return at, false
}

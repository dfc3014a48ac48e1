package capture

import (
	"encoding/binary"
	"hash/crc32"
	"slices"

	"github.com/rdmad/rdmad/dataplane/iwarp"
)

// Markers (RFC 5044 §4.3), in bytes.
const (
	markerSize     = 4
	markerInterval = 512
)

// checking says whether a connection uses CRCs.
type checking uint8

const (
	crcUnknown checking = iota // the handshake was not seen
	crcOff
	crcOn
)

// ulpdu is the content of an FPDU.
type ulpdu struct {
	data []byte // the known first bytes
	size int
}

// stream divides the bytes of one direction into FPDUs (RFC 5044).
type stream struct {
	to  *direction // nil when no more FPDUs are needed
	crc checking
	// markers means that the stream has markers (RFC 5044 §4.3). at is the
	// position in the stream, counted from the first FPDU, markers included.
	markers bool
	at      uint64
	marks   []mark // in the FPDU in buf

	// buf holds the current FPDU so far. known is the number of its first bytes
	// that the capture has. Missing bytes are 0.
	buf   []byte
	known int
	holed bool // bytes are missing: known no longer grows

	// unchecked is the number of bytes for which the markers are unknown after
	// a search.
	unchecked int
	searching bool // searching for the next FPDU
	skipped   int  // bytes skipped by the search
	limit     int  // bound of skipped, in bytes
}

// mark is a marker before the byte at a position of buf.
type mark struct {
	at   int
	word [markerSize]byte
	n    int // bytes of word so far
}

// bytes takes the next bytes. They are valid during the call.
func (s *stream) bytes(b []byte) { s.pass(b, len(b)) }

// missing takes n bytes that the capture lacks.
func (s *stream) missing(n int) { s.pass(nil, n) }

// pass divides n bytes into markers and the bytes between them: b, or missing bytes if b is
// nil. A search takes missing bytes as a whole, because it finds nothing across them.
func (s *stream) pass(b []byte, n int) {
	for n > 0 {
		part, m, phase := b, n, markerSize
		if s.markers && (b != nil || !s.searching) {
			if phase = int(s.at % markerInterval); phase < markerSize {
				m = min(n, markerSize-phase)
			} else {
				m = min(n, markerInterval-phase)
			}
		}
		if b != nil {
			part, b = b[:m], b[m:]
		}
		s.at += uint64(m)
		n -= m
		if phase < markerSize {
			s.mark(part, phase)
		} else {
			s.take(part, m)
		}
	}
}

// mark stores bytes of a marker. b is nil if they are missing.
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

// take takes n bytes without markers: b, or missing bytes if b is nil. It stops
// when the FPDUs are no longer needed.
func (s *stream) take(b []byte, n int) {
	for n > 0 && s.to != nil {
		if s.searching {
			b, n = s.search(b, n)
			continue
		}
		m := min(n, s.wanted())
		if b == nil { // zeros in the place of missing bytes
			s.holed = true
			s.buf = append(s.buf, make([]byte, m)...)
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

// wanted returns the number of bytes that the FPDU, or its length field, still
// lacks.
func (s *stream) wanted() int {
	if len(s.buf) < iwarp.LengthSize {
		return iwarp.LengthSize - len(s.buf)
	}
	return iwarp.FPDUSize(int(binary.BigEndian.Uint16(s.buf))) - len(s.buf)
}

// complete passes on the FPDU once it is complete.
func (s *stream) complete() {
	if len(s.buf) < iwarp.LengthSize {
		return
	}
	if s.holed && s.known < iwarp.LengthSize {
		s.lose()
		return
	}
	if s.wanted() > 0 {
		return
	}
	n := int(binary.BigEndian.Uint16(s.buf))
	good := true
	if got, want, ok := s.check(); ok {
		good = s.to.segment(ulpdu{data: s.buf[iwarp.LengthSize:min(s.known, iwarp.LengthSize+n)], size: n})
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

// check verifies the CRC of a complete FPDU.
func (s *stream) check() (got, want uint32, ok bool) {
	if s.crc == crcOff || s.holed || s.unchecked > 0 {
		return 0, 0, true
	}
	end := len(s.buf) - iwarp.CRCSize
	got, want = binary.LittleEndian.Uint32(s.buf[end:]), crc32.Checksum(s.buf[:end], iwarp.Castagnoli)
	if got == want || s.marked(got) {
		return got, want, true
	}
	return got, want, s.crc == crcUnknown
}

// marked reports whether the CRC covers the markers in the FPDU (RFC 5044
// §4.4). Implementations differ on markers at its edges.
func (s *stream) marked(got uint32) bool {
	end := len(s.buf) - iwarp.CRCSize
	for _, edges := range [...][2]bool{{true, true}, {true, false}, {false, true}, {false, false}} {
		sum, from := uint32(0), 0
		for i := range s.marks {
			m := &s.marks[i]
			if m.n < markerSize {
				return true // the capture lacks a part of it
			}
			if m.at == 0 && !edges[0] || m.at == end && !edges[1] || m.at > end {
				continue
			}
			sum = crc32.Update(crc32.Update(sum, iwarp.Castagnoli, s.buf[from:m.at]), iwarp.Castagnoli, m.word[:])
			from = m.at
		}
		if len(s.marks) > 0 && crc32.Update(sum, iwarp.Castagnoli, s.buf[from:end]) == got {
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
// with. It returns the bytes from that FPDU on. An FPDU is not found across
// missing bytes.
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

// enough is how many bytes of an FPDU are needed to recognise it: its headers
// and the fixed part of an RPC-over-RDMA header.
const enough = iwarp.LengthSize + iwarp.UntaggedSize + prefixSize

// find returns the position of an FPDU in buf. If found is false, it returns
// the position from which bytes must be kept for the next search.
func (s *stream) find() (at int, found bool) {
	for at = 0; at+enough <= len(s.buf); at++ {
		b := s.buf[at:]
		n := int(binary.BigEndian.Uint16(b))
		if !s.to.begins(b[iwarp.LengthSize:min(len(b), iwarp.LengthSize+n)], n) {
			continue
		}
		if s.crc == crcOff {
			return at, true
		}
		size := iwarp.FPDUSize(n)
		if len(b) < size {
			return at, false
		}
		switch right := binary.LittleEndian.Uint32(b[size-iwarp.CRCSize:]) == crc32.Checksum(b[:size-iwarp.CRCSize], iwarp.Castagnoli); {
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

package interop

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"testing"
)

// tshark does not recognize an FPDU of which a TCP segment holds less than this
// many bytes, and loses step for the rest of the connection.
const tsharkMinFPDU = 8

// Offsets and sizes of what a capture has before a TCP segment's data: pcap
// records, Ethernet, IPv4 and TCP headers.
const (
	pcapHeader    = 24
	pcapRecord    = 16
	ethernetSize  = 14
	ipLengthAt    = 2
	ipProtocolAt  = 9
	ipMinSize     = 20
	tcpSequenceAt = 4
	tcpOffsetAt   = 12
	tcpFlagsAt    = 13
	tcpMinSize    = 20
	tcpFIN        = 0x01
	tcpSYN        = 0x02
)

// mpaKey is what the MPA request and reply, and so both directions of an iWARP
// connection, begin with (RFC 5044 §7.1.1).
var mpaKey = []byte("MPA ID Re")

// segment is one TCP segment of a capture.
type segment struct {
	record []byte // all of it, with pcap's header
	tcp    int    // where the TCP header begins
	data   int    // where the data begins
	end    int    // of the data: Ethernet pads short frames
}

// resegment copies a capture and gives tshark each iWARP connection, on
// whatever ports, as a stream that it can follow: in the order of the sequence
// numbers, because tshark misses messages around a segment that was lost and
// comes later; without bytes that were sent again; and with the first bytes of an
// FPDU, where they stand at a segment's end and are too few for tshark, moved to
// the segment after. No byte is changed.
func resegment(t *testing.T, from, to string) {
	t.Helper()
	capture, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	r := resegmenter{out: append([]byte(nil), capture[:pcapHeader]...), flows: map[uint32]*flow{}}
	for at := pcapHeader; at+pcapRecord <= len(capture); {
		size := pcapRecord + int(binary.LittleEndian.Uint32(capture[at+8:]))
		if at+size > len(capture) {
			break // the guest is still running
		}
		if err := r.take(capture[at : at+size]); err != nil {
			t.Fatal(err)
		}
		at += size
	}
	for _, f := range r.flows {
		if err := f.complete(); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(to, r.out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// resegmenter is the state between the records of a capture.
type resegmenter struct {
	out   []byte
	flows map[uint32]*flow // by both ports
}

// take takes the capture's next record.
func (r *resegmenter) take(record []byte) error {
	s, ok := parseSegment(record)
	if !ok {
		r.out = append(r.out, record...)
		return nil
	}
	ports := binary.BigEndian.Uint32(record[s.tcp:])
	if s.flags()&tcpSYN != 0 {
		if before := r.flows[ports]; before != nil {
			if err := before.complete(); err != nil {
				return err
			}
		}
		r.flows[ports] = &flow{next: s.sequence() + 1}
	}
	f := r.flows[ports]
	if f == nil || f.foreign || s.data == s.end && s.flags()&tcpFIN == 0 {
		r.out = append(r.out, record...)
		return nil
	}
	f.held = append(f.held, s)
	for s, ok := f.release(); ok; s, ok = f.release() {
		if err := r.put(f, &s); err != nil {
			return err
		}
	}
	return nil
}

// put copies a segment, the next of its flow.
func (r *resegmenter) put(f *flow, s *segment) error {
	data := s.record[s.data:s.end]
	if !f.started && len(data) > 0 && !bytes.HasPrefix(data, mpaKey) {
		f.foreign = true
	}
	if f.foreign || len(data) == 0 {
		r.out = append(r.out, s.record...)
		return nil
	}
	seq, whole, err := f.pass(s.sequence(), data)
	if err != nil {
		return err
	}
	r.out = s.appendWith(r.out, seq, whole)
	return nil
}

// parseSegment finds the parts of a TCP segment.
func parseSegment(record []byte) (s segment, ok bool) {
	s.record = record
	ip := pcapRecord + ethernetSize
	if len(record) < ip+ipMinSize+tcpMinSize || binary.BigEndian.Uint16(record[ip-2:]) != 0x0800 || record[ip+ipProtocolAt] != 6 {
		return s, false
	}
	s.tcp = ip + int(record[ip]&0xf)*4
	if len(record) < s.tcp+tcpMinSize {
		return s, false
	}
	s.data = s.tcp + int(record[s.tcp+tcpOffsetAt]>>4)*4
	s.end = ip + int(binary.BigEndian.Uint16(record[ip+ipLengthAt:]))
	return s, s.data <= s.end && s.end <= len(record)
}

func (s *segment) sequence() uint32 { return binary.BigEndian.Uint32(s.record[s.tcp+tcpSequenceAt:]) }

func (s *segment) flags() byte { return s.record[s.tcp+tcpFlagsAt] }

// appendWith appends the segment's record with other data.
func (s *segment) appendWith(out []byte, seq uint32, data []byte) []byte {
	at := len(out)
	out = append(append(out, s.record[:s.data]...), data...)
	r := out[at:]
	size := uint32(len(r) - pcapRecord)
	binary.LittleEndian.PutUint32(r[8:], size)
	binary.LittleEndian.PutUint32(r[12:], size)
	binary.BigEndian.PutUint16(r[pcapRecord+ethernetSize+ipLengthAt:], uint16(size-ethernetSize))
	binary.BigEndian.PutUint32(r[s.tcp+tcpSequenceAt:], seq)
	return out
}

// flow is one direction of a connection.
type flow struct {
	next    uint32    // sequence number of the next new byte
	held    []segment // come before what precedes them
	kept    []byte    // came with the segment before
	left    int       // bytes of the present frame that are still to come
	started bool      // the MPA request or reply is over
	foreign bool      // not iWARP: stays as it is
}

// release takes a held segment whose turn it is.
func (f *flow) release() (segment, bool) {
	for i, s := range f.held {
		if f.foreign || int32(f.next-s.sequence()) >= 0 {
			f.held = append(f.held[:i], f.held[i+1:]...)
			return s, true
		}
	}
	return segment{}, false
}

// complete returns an error if the flow still has segments that wait for
// missing bytes.
func (f *flow) complete() error {
	if len(f.held) == 0 {
		return nil
	}
	return fmt.Errorf("the capture lacks %d bytes", f.held[0].sequence()-f.next)
}

// pass takes the data of a segment whose turn it is and gives what is to stand
// in its place.
func (f *flow) pass(seq uint32, data []byte) (uint32, []byte, error) {
	again := int(f.next - seq)
	if again >= len(data) {
		return f.next - uint32(len(f.kept)), nil, nil
	}
	data = data[again:]
	seq = f.next - uint32(len(f.kept))
	f.next += uint32(len(data))
	data = append(f.kept, data...)
	f.kept = nil
	at := f.left
	for at < len(data) {
		if len(data)-at < tsharkMinFPDU {
			f.kept, data = append([]byte(nil), data[at:]...), data[:at]
			break
		}
		n, err := f.frameSize(data[at:])
		if err != nil {
			return 0, nil, err
		}
		at += n
	}
	f.left = at - len(data)
	return seq, data, nil
}

// frameSize returns the size of the FPDU that begins with b, or of the MPA
// frame before the first FPDU (RFC 5044 §4.1, §7.1).
func (f *flow) frameSize(b []byte) (int, error) {
	if f.started {
		return fpduSize(int(binary.BigEndian.Uint16(b))), nil
	}
	if len(b) < mpaFrame {
		return 0, fmt.Errorf("a segment has %d bytes of an MPA frame", len(b))
	}
	f.started = true
	return mpaFrame + int(binary.BigEndian.Uint16(b[mpaFrame-2:])), nil
}

// fpduSize returns the size of an FPDU in bytes: length, ULPDU, padding and
// CRC.
func fpduSize(ulpdu int) int { return (2+ulpdu+3)/4*4 + 4 }

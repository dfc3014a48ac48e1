package interop

import (
	"encoding/binary"
	"fmt"
	"os"
	"testing"
)

// tshark does not recognize an FPDU of which a TCP segment holds less than this
// many bytes, and loses step for the rest of the connection.
const tsharkMinFPDU = 8

// Offsets and sizes of what a capture has before NFS/RDMA's bytes: pcap records,
// Ethernet, IPv4 and TCP headers.
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
	tcpSYN        = 0x02
)

// segment is a TCP segment of a capture.
type segment struct {
	record []byte // all of it, with pcap's header
	tcp    int    // where the TCP header begins
	data   int    // where the data begins
	end    int    // of the data: Ethernet pads short frames
}

// resegment copies a capture and moves the first bytes of FPDUs that stand at
// the end of a segment, too few for tshark, to the segment after. Bytes that
// were sent again are left out.
func resegment(t *testing.T, from, to string) {
	t.Helper()
	capture, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	out := append([]byte(nil), capture[:pcapHeader]...)
	flows := map[uint32]*flow{} // by both ports
	for at := pcapHeader; at+pcapRecord <= len(capture); {
		size := pcapRecord + int(binary.LittleEndian.Uint32(capture[at+8:]))
		if at+size > len(capture) {
			break // the guest is still running
		}
		s, ok := parseSegment(capture[at : at+size])
		at += size
		if !ok {
			out = append(out, s.record...)
			continue
		}
		ports := binary.BigEndian.Uint32(s.record[s.tcp:])
		if s.record[s.tcp+tcpFlagsAt]&tcpSYN != 0 {
			flows[ports] = &flow{next: s.sequence() + 1}
		}
		data := s.record[s.data:s.end]
		if f := flows[ports]; f != nil && len(data) > 0 {
			seq, whole, err := f.pass(s.sequence(), data)
			if err != nil {
				t.Fatal(err)
			}
			out = s.appendWith(out, seq, whole)
			continue
		}
		out = append(out, s.record...)
	}
	if err := os.WriteFile(to, out, 0o600); err != nil {
		t.Fatal(err)
	}
}

// parseSegment finds the parts of a TCP segment from or to the NFS/RDMA port.
func parseSegment(record []byte) (s segment, ok bool) {
	s.record = record
	ip := pcapRecord + ethernetSize
	if len(record) < ip+ipMinSize+tcpMinSize || binary.BigEndian.Uint16(record[ip-2:]) != 0x0800 || record[ip+ipProtocolAt] != 6 {
		return s, false
	}
	s.tcp = ip + int(record[ip]&0xf)*4
	s.data = s.tcp + int(record[s.tcp+tcpOffsetAt]>>4)*4
	s.end = ip + int(binary.BigEndian.Uint16(record[ip+ipLengthAt:]))
	source, destination := binary.BigEndian.Uint16(record[s.tcp:]), binary.BigEndian.Uint16(record[s.tcp+2:])
	return s, s.data <= s.end && s.end <= len(record) && (source == nfsRDMAPort || destination == nfsRDMAPort)
}

func (s *segment) sequence() uint32 { return binary.BigEndian.Uint32(s.record[s.tcp+tcpSequenceAt:]) }

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
	next    uint32 // sequence number of the next new byte
	kept    []byte // came with the segment before
	left    int    // bytes of the present frame that are still to come
	started bool   // the MPA request or reply is over
}

// pass takes a segment's data and gives what is to stand in its place.
func (f *flow) pass(seq uint32, data []byte) (uint32, []byte, error) {
	again := int32(f.next - seq)
	switch {
	case again < 0:
		return 0, nil, fmt.Errorf("the capture lacks %d bytes", -again)
	case int(again) >= len(data):
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

// frameSize is the size of the FPDU that begins with b, or of the MPA frame
// before the first (RFC 5044 §4.1, §7.1).
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

// fpduSize is the size of an FPDU: length, ULPDU, padding, CRC.
func fpduSize(ulpdu int) int { return (2+ulpdu+3)/4*4 + 4 }

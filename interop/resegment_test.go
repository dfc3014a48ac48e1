package interop

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// sent is a TCP segment as a test describes it: where it lies in its stream.
type sent struct{ from, to int }

// TestResegment gives resegment an iWARP connection on ports that nobody
// agreed on, in segments of every awkward kind.
func TestResegment(t *testing.T) {
	stream := append([]byte("MPA ID Req Frame\x50\x02\x00\x04"), 0x80, 1, 0, 1)
	ends := []int{len(stream)} // of frames
	for i := range 40 {
		fpdu := bytes.Repeat([]byte{byte(i)}, fpduSize(14+7*i))
		binary.BigEndian.PutUint16(fpdu, uint16(14+7*i))
		stream = append(stream, fpdu...)
		ends = append(ends, len(stream))
	}
	for _, test := range []struct {
		name  string
		order func(cuts []sent) []sent
	}{
		{"in order", func(cuts []sent) []sent { return cuts }},
		{"one lost and sent again", func(cuts []sent) []sent {
			return append(append(slices.Clone(cuts[:2]), cuts[3:9]...), append([]sent{cuts[2]}, cuts[9:]...)...)
		}},
		{"sent twice, and again in larger pieces", func(cuts []sent) []sent {
			again := sent{cuts[3].from, cuts[5].to}
			return append(append(slices.Clone(cuts[:5]), cuts[4], again), cuts[6:]...)
		}},
		{"the other way round", func(cuts []sent) []sent {
			cuts = slices.Clone(cuts)
			slices.Reverse(cuts[1:])
			return cuts
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			for into := range 12 { // where in an FPDU segments end
				var cuts []sent
				from := 0
				for i := 0; i < len(ends)-1; i += 3 {
					cuts = append(cuts, sent{from, ends[i] + into})
					from = ends[i] + into
				}
				cuts = append(cuts, sent{from, len(stream)})
				checkResegmented(t, stream, ends, test.order(cuts))
			}
		})
	}
}

// checkResegmented lets the stream be captured in these segments, and another
// connection's between them.
func checkResegmented(t *testing.T, stream []byte, ends []int, segments []sent) {
	t.Helper()
	const first = 0xfffffe00 // sequence numbers wrap
	iwarp, other := [2]uint16{54321, 43210}, [2]uint16{2049, 900}
	capture := make([]byte, pcapHeader)
	capture = appendSegment(capture, iwarp, first-1, tcpSYN, nil)
	capture = appendSegment(capture, other, 99, tcpSYN, nil)
	var foreign [][]byte
	for _, s := range segments {
		capture = appendSegment(capture, iwarp, first+uint32(s.from), 0, stream[s.from:s.to])
		at := len(capture)
		capture = appendSegment(capture, other, 100+uint32(s.from), 0, []byte("MPA is not what this is"))
		foreign = append(foreign, capture[at:])
	}
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "to")
	if err := os.WriteFile(from, capture, 0o600); err != nil {
		t.Fatal(err)
	}
	resegment(t, from, to)
	out, err := os.ReadFile(to)
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for at := pcapHeader; at < len(out); {
		size := pcapRecord + int(binary.LittleEndian.Uint32(out[at+8:]))
		s, ok := parseSegment(out[at : at+size])
		at += size
		switch {
		case !ok:
			t.Fatal("no TCP segment any more")
		case binary.BigEndian.Uint16(s.record[s.tcp:]) == other[0] && s.flags() == 0:
			if !bytes.Equal(s.record, foreign[0]) {
				t.Fatal("a segment of another connection was changed or moved")
			}
			foreign = foreign[1:]
		case s.flags() == 0 && s.data < s.end:
			if want := first + uint32(len(got)); s.sequence() != want {
				t.Fatalf("sequence number %d, want %d", s.sequence(), want)
			}
			got = append(got, s.record[s.data:s.end]...)
			i, whole := slices.BinarySearch(ends, len(got))
			if begun := len(got) - ends[max(i-1, 0)]; !whole && i > 0 && begun < tsharkMinFPDU {
				t.Fatalf("a segment ends with %d bytes of an FPDU", begun)
			}
		}
	}
	if !bytes.Equal(got, stream) || len(foreign) > 0 {
		t.Fatalf("%d bytes of %d, or not the same; %d other segments missing", len(got), len(stream), len(foreign))
	}
}

// appendSegment appends a pcap record.
func appendSegment(b []byte, ports [2]uint16, seq uint32, flags byte, data []byte) []byte {
	const ip = pcapRecord + ethernetSize
	r := make([]byte, ip+ipMinSize+tcpMinSize, ip+ipMinSize+tcpMinSize+len(data))
	r = append(r, data...)
	size := uint32(len(r) - pcapRecord)
	binary.LittleEndian.PutUint32(r[8:], size)
	binary.LittleEndian.PutUint32(r[12:], size)
	binary.BigEndian.PutUint16(r[ip-2:], 0x0800)
	r[ip] = 0x45
	binary.BigEndian.PutUint16(r[ip+ipLengthAt:], uint16(size-ethernetSize))
	r[ip+ipProtocolAt] = 6
	tcp := r[ip+ipMinSize:]
	binary.BigEndian.PutUint16(tcp, ports[0])
	binary.BigEndian.PutUint16(tcp[2:], ports[1])
	binary.BigEndian.PutUint32(tcp[tcpSequenceAt:], seq)
	tcp[tcpOffsetAt] = tcpMinSize / 4 << 4
	tcp[tcpFlagsAt] = flags
	return append(b, r...)
}

package capture

import (
	"net/netip"
	"time"
	"unsafe"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// segment is a TCP segment in a capture.
type segment struct {
	frame    uint64
	time     time.Time
	from, to netip.AddrPort
	seq, ack uint32

	syn, fin, rst, acks bool
	// data is the captured part of the payload. length is the payload's full
	// length.
	data   []byte
	length int
}

// span returns how many sequence numbers the segment uses.
func (s *segment) span() uint32 {
	n := uint32(s.length)
	if s.syn {
		n++
	}
	if s.fin {
		n++
	}
	return n
}

// memory returns the memory of a segment that waits, in bytes.
func (s *segment) memory() int { return len(s.data) + int(unsafe.Sizeof(*s)) }

// decodeSegment decodes the TCP segment in a packet. data aliases the packet.
func decodeSegment(p *packet) (s segment, ok bool) {
	all := gopacket.NewPacket(p.data, p.link, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	tcp, ok := all.TransportLayer().(*layers.TCP)
	if !ok {
		return s, false
	}
	cut := max(p.info.Length-p.info.CaptureLength, 0)
	from, to, missing, ok := network(all.NetworkLayer(), cut)
	if !ok || missing > cut {
		return s, false
	}
	return segment{
		frame: p.frame, time: p.info.Timestamp,
		from: netip.AddrPortFrom(from, uint16(tcp.SrcPort)), to: netip.AddrPortFrom(to, uint16(tcp.DstPort)),
		seq: tcp.Seq, ack: tcp.Ack, syn: tcp.SYN, fin: tcp.FIN, rst: tcp.RST, acks: tcp.ACK,
		data: tcp.Payload, length: len(tcp.Payload) + missing,
	}, true
}

// network returns the addresses in an IP header and how many bytes of its
// payload the capture lacks. The length in the header is 0 if the packet was
// captured before an adapter segmented it; then the capture lacks only payload,
// cut bytes of it.
func network(l gopacket.NetworkLayer, cut int) (from, to netip.Addr, missing int, ok bool) {
	switch ip := l.(type) {
	case *layers.IPv4:
		from, _ = netip.AddrFromSlice(ip.SrcIP)
		to, _ = netip.AddrFromSlice(ip.DstIP)
		missing = int(ip.Length) - len(ip.Contents) - len(ip.Payload)
		if ip.Contents[2] == 0 && ip.Contents[3] == 0 {
			missing = cut
		}
	case *layers.IPv6:
		from, _ = netip.AddrFromSlice(ip.SrcIP)
		to, _ = netip.AddrFromSlice(ip.DstIP)
		missing = cut
		if ip.Length != 0 {
			missing = int(ip.Length) - len(ip.Payload)
			if ip.HopByHop != nil {
				missing -= ip.HopByHop.ActualLength
			}
		}
	default:
		return from, to, 0, false
	}
	return from.Unmap(), to.Unmap(), max(missing, 0), from.IsValid() && to.IsValid()
}

package capture

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"
)

// ErrFormat means that the input is neither pcap nor pcapng.
var ErrFormat = errors.New("neither pcap nor pcapng")

// source reads the packets of a capture file of either format.
type source struct {
	counted *counter
	next    func() ([]byte, gopacket.CaptureInfo, []string, error)
	link    func(*gopacket.CaptureInfo) layers.LinkType
	ng      *pcapgo.NgReader // nil for pcap
	counts  bool             // statistics of interfaces have come since the last call of dropped
	drops   uint64           // result of that call
	earlier uint64           // dropped in the sections before this one
	packets uint64
}

// counter counts the bytes read.
type counter struct {
	r io.Reader
	n uint64
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += uint64(n)
	return n, err
}

// The first bytes of capture files.
const (
	magicNg    = 0x0a0d0d0a
	magicMicro = 0xa1b2c3d4
	magicNano  = 0xa1b23c4d
)

// newSource recognises the format by the first bytes and reads the file header.
func newSource(r io.Reader) (*source, error) {
	s := &source{counted: &counter{r: r}}
	buffered := bufio.NewReaderSize(s.counted, 64<<10)
	head, err := buffered.Peek(4)
	if err != nil {
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%w: it has %d bytes", ErrFormat, len(head))
		}
		return nil, err
	}
	little, big := binary.LittleEndian.Uint32(head), binary.BigEndian.Uint32(head)
	switch {
	case big == magicNg:
		return s, s.openNg(buffered)
	case little == magicMicro, little == magicNano, big == magicMicro, big == magicNano:
		return s, s.openPcap(buffered)
	case head[0] == 0x1f && head[1] == 0x8b:
		return nil, fmt.Errorf("%w: it is compressed, use gunzip", ErrFormat)
	}
	return nil, ErrFormat
}

func (s *source) openPcap(r io.Reader) error {
	p, err := pcapgo.NewReader(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	p.SetSnaplen(min(p.Snaplen(), maxPacket))
	s.next = func() ([]byte, gopacket.CaptureInfo, []string, error) {
		data, info, err := p.ReadPacketData()
		return data, info, nil, err
	}
	s.link = func(*gopacket.CaptureInfo) layers.LinkType { return p.LinkType() }
	return nil
}

func (s *source) openNg(r io.Reader) error {
	p, err := pcapgo.NewNgReader(&blocks{r: r}, pcapgo.NgReaderOptions{
		WantMixedLinkType: true, SkipUnknownVersion: true,
		StatisticsCallback: func(int, pcapgo.NgInterfaceStatistics) { s.counts = true },
		SectionEndCallback: func(of []pcapgo.NgInterface, _ pcapgo.NgSectionInfo) { s.earlier += dropsOf(of) },
	})
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
	s.ng = p
	s.next = func() ([]byte, gopacket.CaptureInfo, []string, error) {
		data, info, opts, err := p.ReadPacketDataWithOptions()
		return data, info, opts.Comments, err
	}
	s.link = func(ci *gopacket.CaptureInfo) layers.LinkType {
		if len(ci.AncillaryData) > 0 {
			if l, ok := ci.AncillaryData[0].(layers.LinkType); ok {
				return l
			}
		}
		return layers.LinkTypeNull
	}
	return nil
}

// packet is a packet of a capture.
type packet struct {
	frame uint64 // counted from 1
	info  gopacket.CaptureInfo
	link  layers.LinkType
	data  []byte
	notes []string // comments in the file
}

// read returns the next packet. errors.Is finds io.EOF at the end of the file, and
// io.ErrUnexpectedEOF if the file ends within a packet.
func (s *source) read() (packet, error) {
	data, info, notes, err := s.next()
	if err != nil {
		return packet{}, err
	}
	s.packets++
	link := s.link(&info)
	switch link {
	case rawBSD, rawOpenBSD, layers.LinkTypeIPv4, layers.LinkTypeIPv6:
		link = layers.LinkTypeRaw
	}
	return packet{frame: s.packets, info: info, link: link, data: data, notes: notes}, nil
}

// Numbers for raw IP that some systems use instead of LinkTypeRaw.
const (
	rawBSD     = layers.LinkType(12)
	rawOpenBSD = layers.LinkType(14)
)

// dropped returns the number of packets that the capturing program has dropped
// so far, as recorded in the file.
func (s *source) dropped() uint64 {
	if s.counts {
		s.counts = false
		var of []pcapgo.NgInterface
		for i := range s.ng.NInterfaces() {
			if f, err := s.ng.Interface(i); err == nil {
				of = append(of, f)
			}
		}
		s.drops = s.earlier + dropsOf(of)
	}
	return s.drops
}

// dropsOf returns the number of packets that the interfaces of a section dropped.
func dropsOf(section []pcapgo.NgInterface) (n uint64) {
	for i := range section {
		if drops := section[i].Statistics.PacketsDropped; drops != pcapgo.NgNoValue64 {
			n += drops
		}
	}
	return n
}

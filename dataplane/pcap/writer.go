package pcap

import (
	"fmt"
	"io"
	"runtime"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/dataplane/trace"
)

// maxStreams is the number of connections from which on ended ones are dropped.
const maxStreams = 4096

// Writer writes one capture file in pcapng.
type Writer struct {
	ng      *pcapgo.NgWriter
	streams map[*trace.Conn]*stream
	opened  uint32 // streams so far
	// late is above the numbers of connections that were dropped. Connections below it may have
	// had events when they come.
	late    uint64
	now     time.Time // of the event being written
	packets int
	dropped uint64 // recorded in the file
	ulpdu   []byte // scratch
	payload []byte
	frame   []byte
	comment string // on the next packet
}

// NewWriter begins a file. version is rdmad's.
func NewWriter(w io.Writer, version string) (*Writer, error) {
	ng, err := pcapgo.NewNgWriterInterface(w, pcapgo.NgInterface{
		Name: "rdmad", Description: "RPC-over-RDMA connections of rdmad, as iWARP",
		LinkType: layers.LinkTypeEthernet, OS: runtime.GOOS, TimestampResolution: 9,
	}, pcapgo.NgWriterOptions{SectionInfo: pcapgo.NgSectionInfo{Application: "rdmad " + version, OS: runtime.GOOS, Hardware: runtime.GOARCH}})
	if err != nil {
		return nil, fmt.Errorf("pcap: %w", err)
	}
	return &Writer{ng: ng, streams: make(map[*trace.Conn]*stream)}, nil
}

// Write writes the packets of an event. If it is the connection's first, a handshake comes
// before it.
func (w *Writer) Write(e *trace.Event) error {
	w.now = e.Time
	s := w.streams[e.Conn]
	if s == nil {
		w.forget()
		w.opened++
		s = newStream(e.Conn, w.opened, w.now, e.Midway || e.Conn.Number < w.late)
		w.streams[e.Conn] = s
		if err := s.open(w); err != nil {
			return err
		}
	}
	if err := w.Missing(e.Missing); err != nil { // before the event, where they are missing
		return err
	}
	return s.write(w, e)
}

// Missing records the number of events that were dropped up to here.
func (w *Writer) Missing(n uint64) error {
	if n == w.dropped {
		return nil
	}
	w.dropped = n
	return w.ng.WriteInterfaceStats(0, pcapgo.NgInterfaceStatistics{
		LastUpdate: w.now, PacketsReceived: uint64(w.packets) + w.dropped, PacketsDropped: w.dropped,
	})
}

// Packets returns the number of packets so far.
func (w *Writer) Packets() int { return w.packets }

// Flush writes whole blocks.
func (w *Writer) Flush() error { return w.ng.Flush() }

// forget drops ended connections. Their last events may still come.
func (w *Writer) forget() {
	if len(w.streams) < maxStreams {
		return
	}
	for c := range w.streams {
		if c.Ended() {
			w.late = max(w.late, c.Number+1)
			delete(w.streams, c)
		}
	}
}

// fpdu writes a packet with the ULPDU in w.ulpdu, of which the first bytes are known. n is
// its full length.
func (w *Writer) fpdu(from, to *side, n int) error {
	w.payload = iwarp.AppendFPDU(w.payload[:0], w.ulpdu, n)
	return w.packet(&segment{from: from, to: to, flags: flagPSH | flagACK, payload: w.payload, length: iwarp.FPDUSize(n)})
}

// packet writes a packet.
func (w *Writer) packet(s *segment) error {
	w.frame = s.append(w.frame[:0])
	w.packets++
	var opts pcapgo.NgPacketOptions
	if w.comment != "" {
		opts.Comments = []string{w.comment}
		w.comment = ""
	}
	return w.ng.WritePacketWithOptions(gopacket.CaptureInfo{
		Timestamp:     w.now,
		CaptureLength: len(w.frame),
		Length:        len(w.frame) + s.length - len(s.payload),
	}, w.frame, opts)
}

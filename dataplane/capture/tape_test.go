package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// The two ends of a talk.
const (
	client = 0
	server = 1
)

// frame is one TCP segment of a tape.
type frame struct {
	from, to netip.AddrPort
	seq, ack uint32
	flags    string // any of S, F, R
	data     []byte
	cut      int // bytes of data that the file lacks
}

// tape is a capture that a test writes.
type tape struct{ frames []frame }

// talk is an iWARP connection on a tape. A test writes to it as the two ends of
// a real connection do.
type talk struct {
	tape    *tape
	ends    [2]netip.AddrPort
	seq     [2]uint32
	msn     [2][iwarp.Queues]uint32
	at      [2]uint64 // position in the stream, counted from the first FPDU
	fpduAt  [2]uint64 // where the current FPDU began
	markers [2]bool   // whether the bytes that each end sends have markers
	crc     bool
	mss     int // largest segment, in bytes
	payload int // largest payload of a DDP segment, in bytes
}

// spec describes a talk.
type spec struct {
	port       uint16
	crc        bool
	markers    [2]bool // what each end sends
	enhanced   bool
	peerToPeer bool
	gso        bool
	reject     bool
	v6         bool
	mss        int
	payload    int
}

func (tp *tape) talk(s spec) *talk {
	if s.port == 0 {
		s.port = 1001
	}
	k := &talk{tape: tp, crc: s.crc, markers: s.markers, mss: s.mss, payload: s.payload}
	if k.mss == 0 {
		k.mss = 1460
	}
	if k.payload == 0 {
		k.payload = 1400
	}
	k.ends = [2]netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("192.0.2.7"), s.port), netip.MustParseAddrPort("192.0.2.1:20049")}
	if s.v6 {
		k.ends = [2]netip.AddrPort{netip.AddrPortFrom(netip.MustParseAddr("2001:db8::7"), s.port), netip.MustParseAddrPort("[2001:db8::1]:20049")}
	}
	k.seq = [2]uint32{0xffffff00, 77} // the first wraps
	for i := range k.msn {
		k.msn[i] = [iwarp.Queues]uint32{1, 1, 1}
	}
	k.segment(client, "S", nil)
	k.segment(server, "S", nil)
	k.segment(client, "", nil)
	k.segment(client, "", mpaFrame(iwarp.MPARequest, s, server, wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}.Append(nil)))
	k.segment(server, "", mpaFrame(iwarp.MPAReply, s, client, wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}.Append(nil)))
	return k
}

// mpaFrame returns an MPA request or reply frame. Its sender asks for markers
// if the end other sends them.
func mpaFrame(key string, s spec, other int, private []byte) []byte {
	var flags, revision byte = 0, 1
	if s.crc {
		flags |= iwarp.MPACRC
	}
	if s.markers[other] {
		flags |= iwarp.MPAMarkers
	}
	if s.gso {
		flags |= 0x08
	}
	if s.reject && key == iwarp.MPAReply {
		flags |= iwarp.MPAReject
	}
	if s.enhanced {
		flags, revision = flags|iwarp.MPAEnhanced, 2
		ird := uint16(128)
		if s.peerToPeer {
			ird |= 0x8000
		}
		private = append(binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, ird), 128), private...)
	}
	b := append([]byte(key), flags, revision)
	b = binary.BigEndian.AppendUint16(b, uint16(len(private)))
	return append(b, private...)
}

// segment adds a segment to the tape.
func (k *talk) segment(from int, flags string, data []byte) {
	k.tape.frames = append(k.tape.frames, frame{from: k.ends[from], to: k.ends[1-from], seq: k.seq[from], ack: k.seq[1-from], flags: flags, data: data})
	k.seq[from] += uint32(len(data) + len(flags))
}

// stream sends bytes in segments of at most mss.
func (k *talk) stream(from int, b []byte) {
	for len(b) > 0 {
		n := min(len(b), k.mss)
		k.segment(from, "", b[:n:n])
		b = b[n:]
	}
}

// fpdu returns an FPDU, with markers if the direction has them.
func (k *talk) fpdu(from int, u []byte) []byte {
	b := binary.BigEndian.AppendUint16(nil, uint16(len(u)))
	b = append(b, u...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	b = k.mark(from, b)
	if !k.crc {
		return k.append(from, b, make([]byte, 4))
	}
	return k.append(from, b, binary.LittleEndian.AppendUint32(nil, crc32.Checksum(b, iwarp.Castagnoli)))
}

// mark adds markers to the part of an FPDU before its CRC.
func (k *talk) mark(from int, b []byte) []byte {
	k.fpduAt[from] = k.at[from]
	return k.append(from, nil, b)
}

// append appends words to an FPDU, with the markers that are due between them.
func (k *talk) append(from int, dst, b []byte) []byte {
	if !k.markers[from] {
		k.at[from] += uint64(len(b))
		return append(dst, b...)
	}
	for ; len(b) > 0; b = b[4:] {
		if k.at[from]%512 == 0 {
			dst = binary.BigEndian.AppendUint32(dst, uint32(k.at[from]-k.fpduAt[from]))
			k.at[from] += 4
		}
		dst = append(dst, b[:4]...)
		k.at[from] += 4
	}
	return dst
}

// untagged returns the FPDUs of an untagged message.
func (k *talk) untagged(from int, op byte, stag uint32, data []byte) (all []byte) {
	queue := queueOf[op]
	for off := 0; ; {
		n := min(len(data)-off, k.payload)
		last := off+n == len(data)
		u := []byte{control(0, last), 0x40 | op}
		for _, w := range []uint32{stag, uint32(queue), k.msn[from][queue], uint32(off)} {
			u = binary.BigEndian.AppendUint32(u, w)
		}
		all = append(all, k.fpdu(from, append(u, data[off:off+n]...))...)
		if off += n; last {
			k.msn[from][queue]++
			return all
		}
	}
}

// tagged returns the FPDUs of an RDMA Write or Read Response.
func (k *talk) tagged(from int, op byte, stag uint32, offset uint64, data []byte) (all []byte) {
	for off := 0; ; {
		n := min(len(data)-off, k.payload)
		last := off+n == len(data)
		u := binary.BigEndian.AppendUint32([]byte{control(0x80, last), 0x40 | op}, stag)
		u = binary.BigEndian.AppendUint64(u, offset+uint64(off))
		all = append(all, k.fpdu(from, append(u, data[off:off+n]...))...)
		if off += n; last {
			return all
		}
	}
}

func control(tagged byte, last bool) byte {
	if last {
		return tagged | 0x41
	}
	return tagged | 0x01
}

func (k *talk) send(from int, data []byte) { k.stream(from, k.untagged(from, iwarp.OpSend, 0, data)) }
func (k *talk) sendInv(from int, stag uint32, data []byte) {
	k.stream(from, k.untagged(from, iwarp.OpSendInv, stag, data))
}
func (k *talk) write(from int, stag uint32, offset uint64, data []byte) {
	k.stream(from, k.tagged(from, iwarp.OpWrite, stag, offset, data))
}

func (k *talk) readRequest(from int, sink, source uint32, offset uint64, n int) {
	b := binary.BigEndian.AppendUint32(nil, sink)
	b = binary.BigEndian.AppendUint64(b, 0)
	b = binary.BigEndian.AppendUint32(b, uint32(n))
	b = binary.BigEndian.AppendUint32(b, source)
	b = binary.BigEndian.AppendUint64(b, offset)
	k.stream(from, k.untagged(from, iwarp.OpReadRequest, 0, b))
}

func (k *talk) readResponse(from int, sink uint32, data []byte) {
	k.stream(from, k.tagged(from, iwarp.OpReadResponse, sink, 0, data))
}

func (k *talk) close() {
	k.segment(client, "F", nil)
	k.segment(server, "F", nil)
	k.segment(client, "", nil)
}

// null adds a NULL call and its reply.
func (k *talk) null(xid uint32) {
	k.send(client, callMessage(xid, nil))
	k.send(server, replyMessage(xid, nil))
}

// read adds a READ call, an RDMA Write of n bytes and the reply.
func (k *talk) read(xid uint32, n int) {
	chunk := []rpcrdma1.WriteChunk{{{Handle: 0x7700 + xid, Length: uint32(n), Offset: 1 << 32}}}
	k.send(client, callMessage(xid, chunk))
	k.write(server, 0x7700+xid, 1<<32, noise(n, xid))
	k.sendInv(server, 0x7700+xid, replyMessage(xid, chunk))
}

// wrote adds a call with a read chunk of n bytes, the server's RDMA Read and
// the reply.
func (k *talk) wrote(xid uint32, n int) {
	k.send(client, writeMessage(xid, n))
	k.readRequest(server, 0x3300+xid, 0x5500+xid, 9, n)
	k.readResponse(client, 0x3300+xid, noise(n, xid))
	k.send(server, replyMessage(xid, nil))
}

func callMessage(xid uint32, writes []rpcrdma1.WriteChunk) []byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 64, Writes: writes}
	proc := uint32(0)
	if writes != nil {
		proc = 6
	}
	return append(h.Append(nil), oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 300000, Version: 3, Procedure: proc})...)
}

// writeMessage returns a WRITE call with n bytes in a read chunk.
func writeMessage(xid uint32, n int) []byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 64, Reads: []rpcrdma1.ReadSegment{
		{Position: 40, Segment: rpcrdma1.Segment{Handle: 0x5500 + xid, Length: uint32(n), Offset: 9}},
	}}
	return append(h.Append(nil), oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 300000, Version: 3, Procedure: 7})...)
}

func replyMessage(xid uint32, writes []rpcrdma1.WriteChunk) []byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 32, Writes: writes}
	return append(h.Append(nil), oncrpc.AppendAcceptedReply(nil, xid)...)
}

func noise(n int, seed uint32) []byte {
	b := make([]byte, n)
	for i := range b {
		seed = seed*1664525 + 1013904223
		b[i] = byte(seed >> 24)
	}
	return b
}

// file returns the tape as a pcap file.
func (tp *tape) file(t testing.TB) []byte { return tp.fileOf(t, layers.LinkTypeEthernet) }

func (tp *tape) fileOf(t testing.TB, link layers.LinkType) []byte {
	t.Helper()
	var b bytes.Buffer
	w := pcapgo.NewWriterNanos(&b)
	if err := w.WriteFileHeader(256<<10, link); err != nil {
		t.Fatal(err)
	}
	for i := range tp.frames {
		data := tp.frames[i].packet(t, link)
		ci := gopacket.CaptureInfo{Timestamp: time.Unix(1e9+int64(i), 0), Length: len(data), CaptureLength: len(data) - tp.frames[i].cut}
		if err := w.WritePacket(ci, data[:ci.CaptureLength]); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

// packet serialises a frame for a link type.
func (f *frame) packet(t testing.TB, link layers.LinkType) []byte {
	t.Helper()
	tcp := &layers.TCP{
		SrcPort: layers.TCPPort(f.from.Port()), DstPort: layers.TCPPort(f.to.Port()), Seq: f.seq, Ack: f.ack, Window: 65535,
		SYN: f.flags == "S", FIN: f.flags == "F", RST: f.flags == "R", ACK: f.flags != "S" || f.ack != 77,
	}
	var ip gopacket.SerializableLayer
	kind := layers.EthernetTypeIPv4
	if f.from.Addr().Is4() {
		ip = &layers.IPv4{Version: 4, TTL: 64, Protocol: layers.IPProtocolTCP, SrcIP: f.from.Addr().AsSlice(), DstIP: f.to.Addr().AsSlice()}
	} else {
		kind = layers.EthernetTypeIPv6
		ip = &layers.IPv6{Version: 6, HopLimit: 64, NextHeader: layers.IPProtocolTCP, SrcIP: f.from.Addr().AsSlice(), DstIP: f.to.Addr().AsSlice()}
	}
	all := []gopacket.SerializableLayer{ip, tcp, gopacket.Payload(f.data)}
	ether := &layers.Ethernet{SrcMAC: make([]byte, 6), DstMAC: make([]byte, 6), EthernetType: kind}
	var before []byte
	switch link {
	case layers.LinkTypeEthernet:
		all = append([]gopacket.SerializableLayer{ether}, all...)
	case vlan:
		ether.EthernetType = layers.EthernetTypeDot1Q
		all = append([]gopacket.SerializableLayer{ether, &layers.Dot1Q{VLANIdentifier: 5, Type: kind}}, all...)
	case layers.LinkTypeLinuxSLL:
		before = binary.BigEndian.AppendUint16([]byte{0, 0, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0}, uint16(kind))
	case layers.LinkTypeLinuxSLL2:
		before = append(binary.BigEndian.AppendUint16(nil, uint16(kind)), 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 1, 2, 3, 4, 5, 6, 0, 0)
	case layers.LinkTypeNull:
		before = []byte{2, 0, 0, 0}
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true}, all...); err != nil {
		t.Fatal(err)
	}
	return append(before, buf.Bytes()...)
}

// vlan means Ethernet with a VLAN tag.
const vlan = layers.LinkType(200)

// recorder is a judge that records its events.
type recorder struct {
	cfg  referee.Config
	log  []string
	over string
}

func (r *recorder) Connect(p referee.Private) {
	r.log = append(r.log, fmt.Sprintf("connect %x %x", p.Client, p.Server))
}
func (r *recorder) Gap()            { r.log = append(r.log, "gap") }
func (r *recorder) GivenUp() string { return r.over }

func (r *recorder) Summary() referee.Summary { return referee.Summary{} }
func (r *recorder) Observe(e *referee.Event) {
	r.log = append(r.log, line(e))
}

// line formats an event for comparison.
func line(e *referee.Event) string {
	text := fmt.Sprintf("%s %s", e.From, e.Kind)
	switch e.Kind {
	case referee.Send:
		text += fmt.Sprintf(" %d %08x", e.Length, crc32.ChecksumIEEE(e.Data))
	case referee.SendInvalidate:
		text += fmt.Sprintf(" %#x %d %08x", e.STag, e.Length, crc32.ChecksumIEEE(e.Data))
	case referee.Write:
		text += fmt.Sprintf(" %#x:%#x %d %08x", e.STag, e.Offset, e.Length, crc32.ChecksumIEEE(e.Data))
	case referee.Read:
		text += fmt.Sprintf(" %#x:%#x %d", e.STag, e.Offset, e.Length)
	case referee.ReadDone:
		text += fmt.Sprintf(" %d %08x", e.Length, crc32.ChecksumIEEE(e.Data))
	case referee.Terminate:
		text += fmt.Sprintf(" %d/%d/%d", e.Layer, e.Type, e.Code)
	}
	if len(e.Data) < e.Length && e.Kind != referee.Read {
		text += fmt.Sprintf(" cut at %d", len(e.Data))
	}
	return text
}

// heard reads a capture and returns the events that the judge of each
// connection got.
func heard(t testing.TB, file []byte) (*Report, [][]string) {
	t.Helper()
	var all []*recorder
	report, err := check(context.Background(), bytes.NewReader(file), Options{}, func(cfg referee.Config) judge {
		r := &recorder{cfg: cfg}
		all = append(all, r)
		return r
	})
	if err != nil {
		t.Fatal(err)
	}
	var logs [][]string
	for _, r := range all {
		logs = append(logs, r.log)
	}
	return report, logs
}

// one is heard for a capture with one connection.
func one(t testing.TB, file []byte) (*Connection, []string) {
	t.Helper()
	report, logs := heard(t, file)
	if len(logs) != 1 || len(report.Connections) != 1 {
		t.Fatalf("%d connections, report %+v", len(logs), report)
	}
	return report.Connections[0], logs[0]
}

// same compares the events that a judge got with the expected ones.
func same(t *testing.T, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("heard\n%s\nwant\n%s", lines(got), lines(want))
	}
}

func lines(all []string) (text string) {
	for _, l := range all {
		text += "  " + l + "\n"
	}
	return text
}

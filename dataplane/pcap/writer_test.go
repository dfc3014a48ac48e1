package pcap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net/netip"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/verbs"
)

// packet is one of a file, taken apart.
type packet struct {
	ci      gopacket.CaptureInfo
	from    string
	tcp     *layers.TCP
	payload []byte
}

// parse reads a file. Every checksum that is there must be right.
func parse(t *testing.T, file []byte) (all []packet) {
	t.Helper()
	r, err := pcapgo.NewNgReader(bytes.NewReader(file), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	for {
		data, ci, err := r.ReadPacketData()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.DecodeOptions{NoCopy: true})
		tcp, ok := p.Layer(layers.LayerTypeTCP).(*layers.TCP)
		if !ok {
			t.Fatalf("no TCP in %v", p)
		}
		flow := p.NetworkLayer().NetworkFlow()
		all = append(all, packet{ci: ci, from: flow.Src().String(), tcp: tcp, payload: tcp.Payload})
		if ci.CaptureLength < ci.Length {
			continue
		}
		if err := tcp.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
			t.Fatal(err)
		}
		if fail, bad := p.VerifyChecksums(); fail != nil || len(bad) > 0 {
			t.Errorf("checksums: %v %v", fail, bad)
		}
	}
}

// fpdu is an FPDU taken apart.
type fpdu struct {
	op     byte
	tagged bool
	last   bool
	fields []uint32 // between the control fields and the payload
	data   []byte
}

// parseFPDU checks an FPDU that is whole.
func parseFPDU(t *testing.T, b []byte) fpdu {
	t.Helper()
	n := int(binary.BigEndian.Uint16(b))
	if len(b) != iwarp.FPDUSize(n) {
		t.Fatalf("an FPDU of %d bytes with a ULPDU of %d", len(b), n)
	}
	end := len(b) - iwarp.CRCSize
	if got := binary.LittleEndian.Uint32(b[end:]); got != crc32.Checksum(b[:end], iwarp.Castagnoli) {
		t.Errorf("CRC %#x", got)
	}
	u := b[iwarp.LengthSize : iwarp.LengthSize+n]
	f := fpdu{op: u[1] & 0xf, tagged: u[0]&iwarp.Tagged != 0, last: u[0]&iwarp.Last != 0}
	size := iwarp.UntaggedSize
	if f.tagged {
		size = iwarp.TaggedSize
	}
	for at := 2; at < size; at += 4 {
		f.fields = append(f.fields, binary.BigEndian.Uint32(u[at:]))
	}
	f.data = u[size:]
	return f
}

// conn makes a connection known to a hub of its own.
func conn(local, peer string) *trace.Conn {
	info := trace.Info{ID: "1", PeerPrivate: []byte("peer"), OwnPrivate: []byte("own")}
	if local != "" {
		info.Local, info.Peer = netip.MustParseAddrPort(local), netip.MustParseAddrPort(peer)
	}
	return new(trace.Hub).Add(info)
}

var noon = time.Unix(1_700_000_000, 123_456_789)

// file writes events.
func file(t *testing.T, events ...*trace.Event) ([]byte, *Writer) {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, "v1")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		e.Time = noon
		if err := w.Write(e); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), w
}

func bytesOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * 7)
	}
	return b
}

// handshake is the number of packets before the first FPDU.
const handshake = 5

// TestBegan: a connection that we made begins with our handshake.
func TestBegan(t *testing.T) {
	c := new(trace.Hub).Add(trace.Info{
		ID: "1", PeerPrivate: []byte("peer"), OwnPrivate: []byte("own"), Began: true,
		Local: netip.MustParseAddrPort("192.0.2.9:777"), Peer: netip.MustParseAddrPort("198.51.100.7:20049"),
	})
	out, _ := file(t, &trace.Event{Conn: c, Op: verbs.OpSend, Length: 100, Data: bytesOf(100)})
	all := parse(t, out)
	if len(all) != handshake+1 {
		t.Fatalf("%d packets", len(all))
	}
	for i, from := range []string{"192.0.2.9", "198.51.100.7", "192.0.2.9", "192.0.2.9", "198.51.100.7", "192.0.2.9"} {
		if all[i].from != from {
			t.Errorf("packet %d is from %s", i, all[i].from)
		}
	}
	if !bytes.HasSuffix(all[3].payload, []byte("own")) || !bytes.HasSuffix(all[4].payload, []byte("peer")) {
		t.Errorf("request %q, reply %q", all[3].payload, all[4].payload)
	}
}

// TestStream checks that each side's packets are one stream of bytes without
// gaps, over IPv4, IPv6 and where there are no addresses.
func TestStream(t *testing.T) {
	for _, tc := range []struct{ name, local, peer, own, other string }{
		{"IPv4", "192.0.2.9:20049", "198.51.100.7:777", "192.0.2.9", "198.51.100.7"},
		{"IPv6", "[2001:db8::9]:20049", "[2001:db8::7]:777", "2001:db8::9", "2001:db8::7"},
		{"mapped", "[::ffff:192.0.2.9]:20049", "198.51.100.7:777", "192.0.2.9", "198.51.100.7"},
		{"mixed", "192.0.2.9:20049", "[2001:db8::7]:777", "192.0.2.2", "192.0.2.1"},
		{"none", "", "", "192.0.2.2", "192.0.2.1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := conn(tc.local, tc.peer)
			data := bytesOf(100_001)
			out, w := file(t,
				&trace.Event{Conn: c, Op: verbs.OpSend, In: true, Length: 100, Data: data[:100]},
				&trace.Event{Conn: c, Op: verbs.OpRDMAWrite, RKey: 7, Addr: 1 << 33, Length: len(data), Data: data},
				&trace.Event{Conn: c, Op: verbs.OpRDMARead, In: true, RKey: 8, Addr: 1 << 34, Length: 70_000, Data: data[:70_000]},
				&trace.Event{Conn: c, Op: verbs.OpSendInvalidate, RKey: 9, Length: 20_000, Data: data[:20_000]},
			)
			all := parse(t, out)
			if len(all) != w.Packets() {
				t.Errorf("%d packets, told %d", len(all), w.Packets())
			}
			next, began := map[string]uint32{}, map[string]bool{}
			for i, p := range all {
				if p.from != tc.own && p.from != tc.other {
					t.Fatalf("packet %d is from %s", i, p.from)
				}
				if began[p.from] && p.tcp.Seq != next[p.from] {
					t.Errorf("packet %d has sequence number %d, want %d", i, p.tcp.Seq, next[p.from])
				}
				other := tc.own
				if p.from == tc.own {
					other = tc.other
				}
				if p.tcp.ACK && p.tcp.Ack != next[other] {
					t.Errorf("packet %d acknowledges %d, want %d", i, p.tcp.Ack, next[other])
				}
				next[p.from], began[p.from] = p.tcp.Seq+uint32(len(p.payload)), true
				if p.tcp.SYN {
					next[p.from]++
				}
				if len(p.payload) > maxSegment || !p.ci.Timestamp.Equal(noon) {
					t.Errorf("packet %d has %d bytes at %v", i, len(p.payload), p.ci.Timestamp)
				}
			}
			if !all[0].tcp.SYN || all[0].from != tc.other || !bytes.HasSuffix(all[3].payload, []byte("\x40\x01\x00\x04peer")) || !bytes.HasSuffix(all[4].payload, []byte("\x40\x01\x00\x03own")) {
				t.Errorf("the handshake is %+v", all[:handshake])
			}
			checkOperations(t, all[handshake:], data)
		})
	}
}

// checkOperations checks the FPDUs that TestStream's events become.
func checkOperations(t *testing.T, all []packet, data []byte) {
	t.Helper()
	next := func() fpdu {
		t.Helper()
		if len(all) == 0 {
			t.Fatal("an FPDU is missing")
		}
		p := all[0]
		all = all[1:]
		return parseFPDU(t, p.payload)
	}
	// rest collects the segments of a message; at is where offsets are.
	rest := func(op byte, tagged bool, want []byte, check func(f fpdu, off int) bool) {
		t.Helper()
		var got []byte
		for {
			f := next()
			if f.op != op || f.tagged != tagged || !check(f, len(got)) {
				t.Fatalf("after %d bytes: %+v", len(got), f)
			}
			got = append(got, f.data...)
			if f.last {
				break
			}
		}
		if !bytes.Equal(got, want) {
			t.Errorf("opcode %d: %d bytes, want %d", op, len(got), len(want))
		}
	}
	untagged := func(fields ...uint32) func(fpdu, int) bool {
		return func(f fpdu, off int) bool {
			return f.fields[0] == fields[0] && f.fields[1] == iwarp.QueueSend && f.fields[2] == fields[1] && f.fields[3] == uint32(off)
		}
	}
	tagged := func(stag uint32, addr uint64) func(fpdu, int) bool {
		return func(f fpdu, off int) bool {
			return f.fields[0] == stag && uint64(f.fields[1])<<32|uint64(f.fields[2]) == addr+uint64(off)
		}
	}
	rest(iwarp.OpSend, false, data[:100], untagged(0, 1))
	rest(iwarp.OpWrite, true, data, tagged(7, 1<<33))
	f := next()
	want := binary.BigEndian.AppendUint32(nil, 1)
	want = binary.BigEndian.AppendUint64(want, 0)
	want = binary.BigEndian.AppendUint32(want, 70_000)
	want = binary.BigEndian.AppendUint32(want, 8)
	want = binary.BigEndian.AppendUint64(want, 1<<34)
	if f.op != iwarp.OpReadRequest || f.fields[1] != iwarp.QueueReadRequest || f.fields[2] != 1 || !f.last || !bytes.Equal(f.data, want) {
		t.Errorf("the Read Request is %+v", f)
	}
	rest(iwarp.OpReadResponse, true, data[:70_000], tagged(1, 0))
	rest(iwarp.OpSendInv, false, data[:20_000], untagged(9, 1))
	if len(all) > 0 {
		t.Errorf("%d packets too many", len(all))
	}
}

// TestCut: what the snap length left behind is missing from the file, and
// nothing else: FPDUs of what is there are whole.
func TestCut(t *testing.T) {
	c := conn("192.0.2.9:20049", "198.51.100.7:777")
	data := bytesOf(30_000)
	out, _ := file(t,
		&trace.Event{Conn: c, Op: verbs.OpRDMAWrite, RKey: 7, Length: 30_000, Data: data[:10_000]},
		&trace.Event{Conn: c, Op: verbs.OpSend, Length: 100, Data: nil},
		&trace.Event{Conn: c, Op: verbs.OpSend, Length: 4, Data: data[:4]},
	)
	all := parse(t, out)[handshake:]
	seq := all[0].tcp.Seq
	var got []byte
	cut, total := 0, 0
	for i, p := range all {
		if p.tcp.Seq != seq {
			t.Errorf("packet %d has sequence number %d, want %d", i, p.tcp.Seq, seq)
		}
		missing := p.ci.Length - p.ci.CaptureLength
		seq += uint32(len(p.payload) + missing)
		if missing > 0 {
			cut++
			total += missing
			if p.tcp.Checksum != 0 {
				t.Errorf("packet %d is cut and has checksum %#x", i, p.tcp.Checksum)
			}
			continue
		}
		got = append(got, parseFPDU(t, p.payload).data...)
	}
	if !bytes.Equal(got, append(bytes.Clone(data[:10_000]), data[:4]...)) || cut != 4 {
		t.Errorf("%d bytes are there in whole FPDUs, %d packets are cut", len(got), cut)
	}
	if missing := 20_100; total < missing || total > missing+cut*(iwarp.CRCSize+3) {
		t.Errorf("%d bytes are missing, %d are not known", total, missing)
	}
}

// TestDropsAreTold: the file says how many events were dropped, and between which
// packets.
func TestDropsAreTold(t *testing.T) {
	c := conn("192.0.2.9:20049", "198.51.100.7:777")
	send := trace.Event{Conn: c, Op: verbs.OpSend, Length: 4, Data: []byte("abcd"), Dropped: 7}
	out, _ := file(t, missing(send, 0), missing(send, 3), missing(send, 5))
	r, err := pcapgo.NewNgReader(bytes.NewReader(out), pcapgo.DefaultNgReaderOptions)
	if err != nil {
		t.Fatal(err)
	}
	var told []uint64
	for err == nil {
		if _, _, err = r.ReadPacketData(); err == nil {
			intf, _ := r.Interface(0)
			told = append(told, intf.Statistics.PacketsDropped)
		}
	}
	if last := told[len(told)-3:]; last[0] == 3 || last[1] != 3 || last[2] != 5 {
		t.Errorf("at the last three packets it says %d, want what is missing before each", last)
	}
	intf, err := r.Interface(0)
	if err != nil {
		t.Fatal(err)
	}
	if intf.Statistics.PacketsDropped != 5 || intf.Name != "rdmad" || r.SectionInfo().Application != "rdmad v1" {
		t.Errorf("the file says %+v, %+v", intf, r.SectionInfo())
	}
}

// TestConnectionsThatEndedAreForgotten bounds what a long capture holds.
func TestConnectionsThatEndedAreForgotten(t *testing.T) {
	w, err := NewWriter(io.Discard, "v1")
	if err != nil {
		t.Fatal(err)
	}
	var hub trace.Hub
	for range 2*maxStreams + 10 {
		c := hub.Add(trace.Info{ID: "1"})
		if err := w.Write(&trace.Event{Time: noon, Conn: c, Op: verbs.OpSend}); err != nil {
			t.Fatal(err)
		}
		c.Close()
		if len(w.streams) > maxStreams {
			t.Fatalf("%d connections are kept", len(w.streams))
		}
	}
}

// TestLateEvents: if the last events of a connection that ended come after it was forgotten, readers
// see another connection, of which they do not know the beginning.
func TestLateEvents(t *testing.T) {
	var hub trace.Hub
	send := func(c *trace.Conn) *trace.Event {
		return &trace.Event{Conn: c, Op: verbs.OpSend, Length: 4, Data: []byte("abcd")}
	}
	first := hub.Add(trace.Info{Local: netip.MustParseAddrPort("192.0.2.9:20049"), Peer: netip.MustParseAddrPort("192.0.2.7:777")})
	all := []*trace.Event{send(first)}
	for range maxStreams {
		all = append(all, send(hub.Add(trace.Info{ID: "1"})))
	}
	all = append(all, send(first))
	first.Close()
	out, _ := file(t, all...)
	packets := parse(t, out)
	before, after := packets[0], packets[len(packets)-1-handshake]
	if !before.tcp.SYN || !after.tcp.SYN || after.from != "192.0.2.7" || before.tcp.Seq == after.tcp.Seq {
		t.Errorf("the connection begins at %d, and again at %d from %s", before.tcp.Seq, after.tcp.Seq, after.from)
	}
	for text, want := range map[Note]int{{}: maxStreams + 1, {Midway: true}: 1} {
		r, err := pcapgo.NewNgReader(bytes.NewReader(out), pcapgo.DefaultNgReaderOptions)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for {
			_, _, opts, err := r.ReadPacketDataWithOptions()
			if err != nil {
				break
			}
			if n, ok := ParseNote(opts.Comments); ok && n == text {
				found++
			}
		}
		if found != want {
			t.Errorf("%d connections have the note %+v, want %d", found, text, want)
		}
	}
}

// TestReusedPorts: a connection with the addresses of an older one begins at
// other sequence numbers, so that readers tell them apart.
func TestReusedPorts(t *testing.T) {
	var hub trace.Hub
	info := trace.Info{Local: netip.MustParseAddrPort("192.0.2.9:20049"), Peer: netip.MustParseAddrPort("192.0.2.7:777")}
	out, _ := file(t,
		&trace.Event{Conn: hub.Add(info), Op: verbs.OpSend, Length: 4, Data: []byte("abcd")},
		&trace.Event{Conn: hub.Add(info), Op: verbs.OpSend, Length: 4, Data: []byte("abcd")},
	)
	all := parse(t, out)
	if a, b := all[0], all[handshake+1]; !a.tcp.SYN || !b.tcp.SYN || a.tcp.Seq == b.tcp.Seq {
		t.Errorf("the connections begin at %d and %d", a.tcp.Seq, b.tcp.Seq)
	}
}

// missing is an event before which so many are missing.
func missing(e trace.Event, n uint64) *trace.Event {
	e.Missing = n
	return &e
}

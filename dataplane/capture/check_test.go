package capture

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket/layers"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// session is the connection that most tests capture: messages of one and of
// several segments, RDMA Writes, RDMA Reads and Sends With Invalidate.
func session(k *talk) {
	k.null(1)
	k.read(2, 5000)
	k.wrote(3, 9000)
	k.read(4, 0)
	k.null(5)
	k.close()
}

// said returns the events that a judge must get for a session.
func said() []string {
	crc := func(b []byte) string { return fmt.Sprintf("%d %08x", len(b), crc32.ChecksumIEEE(b)) }
	chunk := func(xid uint32, n int) []rpcrdma1.WriteChunk {
		return []rpcrdma1.WriteChunk{{{Handle: 0x7700 + xid, Length: uint32(n), Offset: 1 << 32}}}
	}
	null := func(xid uint32) []string {
		return []string{"client Send " + crc(callMessage(xid, nil)), "server Send " + crc(replyMessage(xid, nil))}
	}
	read := func(xid uint32, n int) []string {
		return []string{
			"client Send " + crc(callMessage(xid, chunk(xid, n))),
			fmt.Sprintf("server RDMA Write %#x:0x100000000 %s", 0x7700+xid, crc(noise(n, xid))),
			fmt.Sprintf("server Send With Invalidate %#x %s", 0x7700+xid, crc(replyMessage(xid, chunk(xid, n)))),
		}
	}
	wrote := func(xid uint32, n int) []string {
		return []string{
			"client Send " + crc(writeMessage(xid, n)), fmt.Sprintf("server RDMA Read %#x:0x9 %d", 0x5500+xid, n),
			"server RDMA Read Response " + crc(noise(n, xid)), "server Send " + crc(replyMessage(xid, nil)),
		}
	}
	return slices.Concat([]string{"connect f6ab0e1801010303 f6ab0e1801010303"}, null(1), read(2, 5000), wrote(3, 9000), read(4, 0), null(5),
		[]string{"client close", "server close"})
}

// TestSession checks that a judge gets the same events for every encapsulation,
// segmentation and handshake.
func TestSession(t *testing.T) {
	for name, s := range map[string]spec{
		"plain":               {},
		"crc":                 {crc: true},
		"enhanced":            {enhanced: true, gso: true},
		"ipv6":                {v6: true, crc: true},
		"many in a segment":   {payload: 100, mss: 60000},
		"across segments":     {payload: 1400, mss: 37, crc: true},
		"large":               {payload: 60000, mss: 60000},
		"markers":             {markers: [2]bool{true, true}, crc: true},
		"markers of one side": {markers: [2]bool{false, true}, crc: true, mss: 37},
		"markers, no crc":     {markers: [2]bool{true, false}, payload: 60000},
	} {
		t.Run(name, func(t *testing.T) {
			tp := &tape{}
			session(tp.talk(s))
			c, got := one(t, tp.file(t))
			same(t, got, said())
			if c.Gaps != 0 || c.MissingBytes != 0 || !c.Handshake || c.GivenUp != "" || c.CRC != s.crc || c.Markers != (s.markers[0] || s.markers[1]) {
				t.Errorf("%+v", c)
			}
		})
	}
}

// TestLinkTypes checks that packets of all link types are decoded.
func TestLinkTypes(t *testing.T) {
	for _, link := range []layers.LinkType{
		layers.LinkTypeEthernet, layers.LinkTypeLinuxSLL, layers.LinkTypeLinuxSLL2, layers.LinkTypeNull, layers.LinkTypeRaw, layers.LinkTypeIPv4, vlan,
	} {
		tp := &tape{}
		session(tp.talk(spec{}))
		file := tp.fileOf(t, link)
		if link == vlan {
			file[20] = byte(layers.LinkTypeEthernet)
		}
		t.Run(link.String(), func(t *testing.T) {
			_, got := one(t, file)
			same(t, got, said())
		})
	}
}

// TestReport checks that the referee finds no violation in a session, and the
// counts in the report.
func TestReport(t *testing.T) {
	tp := &tape{}
	session(tp.talk(spec{}))
	report, err := Check(t.Context(), bytes.NewReader(tp.file(t)), Options{})
	if err != nil || len(report.Connections) != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	c := report.Connections[0]
	want := Connection{
		Peer: "192.0.2.7:1001", Server: "192.0.2.1:20049", Transport: "iwarp", FirstFrame: 5, LastFrame: c.LastFrame, Began: c.Began, Handshake: true,
		RPCVersion: 1, RPCVersions: []uint32{1}, ToServer: 4096, ToClient: 4096, RemoteInvalidation: true, Credits: Credits{64, 32, 1}, Calls: 5, Replies: 5, Sends: 10, SendsWithInvalidate: 2,
		RDMAReads: 1, RDMAWrites: 2, Registrations: 3, PerCall: PerCall{2, 0.2, 0.4, 0.6},
		Savings: []Saving{{8 << 10, 1}, {16 << 10, 2}, {64 << 10, 2}}, Violations: []Violation{},
	}
	if got := fmt.Sprintf("%+v", *c); got != fmt.Sprintf("%+v", want) {
		t.Errorf("got  %s\nwant %+v", got, want)
	}
}

// TestSeveral checks that the connections in one file are judged separately.
// Two use the same ports one after the other, and one flow is no RPC-over-RDMA.
func TestSeveral(t *testing.T) {
	tp := &tape{}
	a, b := tp.talk(spec{port: 1001}), tp.talk(spec{port: 1002, crc: true})
	a.null(1)
	b.null(1)
	a.read(2, 5000)
	b.wrote(2, 300)
	a.close()
	again := tp.talk(spec{port: 1001})
	b.null(3)
	again.null(1)
	other := &talk{tape: tp, ends: [2]netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:5"), netip.MustParseAddrPort("192.0.2.1:80")}, mss: 100}
	other.segment(client, "S", nil)
	other.stream(client, []byte("GET / HTTP/1.1\r\n\r\n"))
	tp.talk(spec{port: 1003, reject: true})
	report, logs := heard(t, tp.file(t))
	if len(logs) != 3 || report.OtherFlows != 1 || len(report.NotFollowed) != 1 || report.NotFollowed[0].Reason != "the server rejected the connection" {
		t.Fatalf("%d connections, report %+v", len(logs), report)
	}
	for i, want := range []int{2 + 3 + 2, 2 + 4 + 2, 2} {
		if got := len(logs[i]) - 1; got != want || slices.Contains(logs[i], "gap") {
			t.Errorf("connection %d: %d events, want %d:\n%s", i, got, want, lines(logs[i]))
		}
	}
}

package capture

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
	"github.com/gopacket/gopacket/pcapgo"

	"github.com/rdmad/rdmad/dataplane/iwarp"
	"github.com/rdmad/rdmad/dataplane/pcap"
	"github.com/rdmad/rdmad/dataplane/trace"
	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/verbs"
)

// TestNoCapture checks that input which is no capture is rejected with an error
// of one line.
func TestNoCapture(t *testing.T) {
	tp := &tape{}
	session(tp.talk(spec{}))
	file := tp.file(t)
	for name, in := range map[string][]byte{
		"nothing": nil, "two bytes": file[:2], "half a header": file[:20], "text": []byte("hello, world, this is not a capture"),
		"compressed": {0x1f, 0x8b, 8, 0}, "zeros": make([]byte, 100), "pcapng without more": {0x0a, 0x0d, 0x0d, 0x0a},
		"pcapng of garbage": append([]byte{0x0a, 0x0d, 0x0d, 0x0a}, bytes.Repeat([]byte{0xff}, 100)...),
	} {
		report, err := Check(t.Context(), bytes.NewReader(in), Options{})
		if report != nil || !errors.Is(err, ErrFormat) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, %v", name, report, err)
		}
	}
}

// TestTruncated reads a file that ends within a packet. The error says so, and
// the packets before count.
func TestTruncated(t *testing.T) {
	tp := &tape{}
	k := tp.talk(spec{})
	k.null(1)
	k.null(2)
	file := tp.file(t)
	for cut := 1; cut < 60; cut += 7 {
		report, err := Check(t.Context(), bytes.NewReader(file[:len(file)-cut]), Options{})
		if !errors.Is(err, io.ErrUnexpectedEOF) || !report.Truncated || report.Packets != uint64(len(tp.frames)-1) || report.Connections[0].Calls != 2 {
			t.Errorf("without %d bytes: %+v, %v", cut, report, err)
		}
	}
}

// TestBrokenRecords checks that a packet of an impossible length ends the
// reading.
func TestBrokenRecords(t *testing.T) {
	tp := &tape{}
	session(tp.talk(spec{}))
	file := tp.file(t)
	binary.LittleEndian.PutUint32(file[24+8:], 0xfffffff0)
	before := allocated()
	report, err := Check(t.Context(), bytes.NewReader(file), Options{})
	if err == nil || report == nil || strings.Contains(err.Error(), "\n") {
		t.Errorf("%+v, %v", report, err)
	}
	if n := allocated() - before; n > 8<<20 {
		t.Errorf("%d bytes were allocated", n)
	}
}

func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// TestTransportRules plants violations that only the transport shows.
func TestTransportRules(t *testing.T) {
	for rule, plant := range map[string]func(k *talk){
		"mpa.crc": func(k *talk) {
			b := k.untagged(client, iwarp.OpSend, 0, callMessage(1, nil))
			b[40] ^= 1
			k.stream(client, b)
		},
		"ddp.header": func(k *talk) { k.stream(client, k.fpdu(client, bytes.Repeat([]byte{0xee}, 40))) },
		"ddp.order": func(k *talk) {
			k.msn[client][iwarp.QueueSend] = 3
			k.send(client, callMessage(1, nil))
		},
		"rdmap.read_response": func(k *talk) { k.readResponse(server, 0x99, noise(100, 1)) },
		"rdmap.read_request": func(k *talk) {
			k.null(1)
			k.stream(server, k.untagged(server, iwarp.OpReadRequest, 0, make([]byte, 20)))
		},
	} {
		tp := &tape{}
		k := tp.talk(spec{crc: true})
		plant(k)
		report, _ := heard(t, tp.file(t))
		if v := report.Connections[0].Violations; len(v) != 1 || v[0].Rule != rule || v[0].Frame == 0 || report.Violations != 1 {
			t.Errorf("%s: %+v", rule, v)
		}
	}
}

// TestPlanted checks that the referee's violations are reported with their
// frame and on the right connection. After a loss, their consequences are not
// reported.
func TestPlanted(t *testing.T) {
	plant := func() *tape {
		tp := &tape{}
		good, bad := tp.talk(spec{port: 1001}), tp.talk(spec{port: 1002})
		good.null(1)
		bad.null(1)
		bad.send(server, replyMessage(99, nil)) // answers no call
		good.null(2)
		bad.null(2)
		return tp
	}
	tp := plant()
	report, err := Check(t.Context(), bytes.NewReader(tp.file(t)), Options{})
	if err != nil || len(report.Connections) != 2 || report.Violations == 0 {
		t.Fatalf("%+v, %v", report, err)
	}
	if v := report.Connections[0].Violations; len(v) > 0 {
		t.Errorf("the good connection: %+v", v)
	}
	if v := report.Connections[1].Violations; len(v) != 1 || v[0].Frame != 15 || v[0].Direction != toClient {
		t.Errorf("the bad connection: %+v", v)
	}
	tp = plant()
	tp.frames = slices.Delete(tp.frames, 13, 14) // the reply before the violation
	report, err = Check(t.Context(), bytes.NewReader(tp.file(t)), Options{})
	if err != nil || report.Violations != 0 || report.Connections[1].Gaps == 0 {
		t.Errorf("with a loss before it: %+v, %v", report.Connections[1], err)
	}
}

// TestTerminate decodes a Terminate with the bit order of RFC 5040 and with
// that of Linux.
func TestTerminate(t *testing.T) {
	for _, word := range [][]byte{{0x12, 0x02, 0, 0}, {0x21, 0x02, 0, 0}, {0x12, 0x02, 0xc0, 0, 0, 0}, {0x21, 0x02, 0x03, 0, 0, 0}} {
		tp := &tape{}
		k := tp.talk(spec{})
		k.null(1)
		k.stream(server, k.untagged(server, iwarp.OpTerminate, 0, word))
		_, got := one(t, tp.file(t))
		if last := got[len(got)-1]; last != "server Terminate 1/2/2" {
			t.Errorf("% x: %s", word, last)
		}
	}
}

// TestRTR checks that the referee does not see the client's RTR indication.
func TestRTR(t *testing.T) {
	for name, rtr := range map[string]func(k *talk){
		"write": func(k *talk) { k.write(client, 0, 0, nil) },
		"send":  func(k *talk) { k.send(client, nil) },
		"read": func(k *talk) {
			k.readRequest(client, 0, 0, 0, 0)
			k.readResponse(server, 0, nil)
		},
	} {
		tp := &tape{}
		k := tp.talk(spec{enhanced: true, peerToPeer: true})
		rtr(k)
		session(k)
		c, got := one(t, tp.file(t))
		if same(t, got, said()); c.Gaps > 0 || c.ViolationsFound > 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestOthers checks that iWARP of other programs is not judged.
func TestOthers(t *testing.T) {
	tp := &tape{}
	k := tp.talk(spec{})
	for i := range tp.frames {
		tp.frames[i].data = bytes.ReplaceAll(tp.frames[i].data, privateMagic, []byte("rpin"))
	}
	k.send(client, []byte("rdma-ping-0: ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	k.null(1)
	c, _ := one(t, tp.file(t))
	if c.GivenUp != "its messages are not those of RPC-over-RDMA" {
		t.Errorf("%+v", c)
	}
}

// TestRdmadsOwn checks that captures of rdmad are judged from rdmad's end, and
// that events which rdmad did not see cause no violation.
func TestRdmadsOwn(t *testing.T) {
	for _, began := range []bool{false, true} {
		for _, midway := range []bool{false, true} {
			var b bytes.Buffer
			w, err := pcap.NewWriter(&b, "test")
			if err != nil {
				t.Fatal(err)
			}
			conn := new(trace.Hub).Add(trace.Info{
				ID: "1", Local: netip.MustParseAddrPort("192.0.2.1:20049"), Peer: netip.MustParseAddrPort("192.0.2.7:1001"), Began: began,
			})
			for xid := range uint32(3) {
				for _, in := range []bool{!began, began} {
					data := callMessage(xid, nil)
					if in == began {
						data = replyMessage(xid, nil)
					}
					e := &trace.Event{Time: time.Unix(1, 0), Conn: conn, Op: verbs.OpSend, In: in, Length: len(data), Data: data, Midway: midway}
					if xid == 2 {
						e.Missing = 5
					}
					if err := w.Write(e); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			var vantage referee.Vantage
			var log *recorder
			report, err := check(t.Context(), &b, Options{}, func(cfg referee.Config) judge {
				vantage, log = cfg.Vantage, &recorder{}
				return log
			})
			if err != nil {
				t.Fatal(err)
			}
			peer, want := "192.0.2.7:1001", referee.FromServer
			if began {
				peer, want = "192.0.2.1:20049", referee.FromClient
			}
			if c := report.Connections[0]; c.Peer != peer || vantage != want || report.Dropped != 5 || len(c.Violations) > 0 {
				t.Errorf("began %v: %+v", began, report)
			}
			if slices.Contains(log.log[:2], "gap") != midway || !slices.Contains(log.log[4:], "gap") {
				t.Errorf("midway %v: heard\n%s", midway, lines(log.log))
			}
		}
	}
}

// TestSections checks a capture that went on after a restart of rdmad. A connection between the
// same ports is another one, and events that were dropped count in both sections.
func TestSections(t *testing.T) {
	var b bytes.Buffer
	for at, dropped := range []uint64{5, 3} {
		w, err := pcap.NewWriter(&b, "test")
		if err != nil {
			t.Fatal(err)
		}
		conn := new(trace.Hub).Add(trace.Info{ID: "1", Local: netip.MustParseAddrPort("192.0.2.1:20049"), Peer: netip.MustParseAddrPort("192.0.2.7:1001")})
		for xid := range uint32(2) {
			data := callMessage(xid, nil)
			if err := w.Write(&trace.Event{
				Time: time.Unix(int64(at), 0), Conn: conn, Op: verbs.OpSend, In: true, Length: len(data), Data: data, Missing: uint64(xid) * dropped,
			}); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	report, heard := heard(t, b.Bytes())
	if report.Dropped != 8 || len(heard) != 2 {
		t.Fatalf("%d packets dropped, %d connections", report.Dropped, len(heard))
	}
	for _, log := range heard {
		if slices.Index(log, "gap") != len(log)-2 {
			t.Errorf("heard\n%s", lines(log))
		}
	}
}

// TestPipe checks that data in a pipe is judged while more is written to it.
func TestPipe(t *testing.T) {
	tp := &tape{}
	session(tp.talk(spec{}))
	r, w := io.Pipe()
	seen := make(chan string)
	done := make(chan error)
	go func() {
		_, err := check(t.Context(), r, Options{}, func(referee.Config) judge { return told(seen) })
		done <- err
	}()
	file := tp.file(t)
	at := bytes.Index(file, mustPacket(t, tp, 6)) // after a call
	go w.Write(file[:at])
	if first := <-seen; !strings.HasPrefix(first, "client Send") {
		t.Errorf("heard %q first", first)
	}
	go func() {
		w.Write(file[at:])
		w.Close()
	}()
	for {
		select {
		case <-seen:
			continue
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		}
		return
	}
}

func mustPacket(t *testing.T, tp *tape, i int) []byte {
	return tp.frames[i].packet(t, layers.LinkTypeEthernet)
}

// told is a judge that passes on each event at once.
type told chan string

func (c told) Connect(referee.Private)      {}
func (c told) Gap()                         {}
func (c told) GivenUp() string              { return "" }
func (c told) Summary() (s referee.Summary) { return s }
func (c told) Observe(e *referee.Event)     { c <- line(e) }

// endless is a capture of n packets of one flow.
type endless struct {
	buf  bytes.Buffer
	w    *pcapgo.Writer
	left int
	next func(i int) []byte
}

func (e *endless) Read(b []byte) (int, error) {
	for e.buf.Len() == 0 {
		if e.left == 0 {
			return 0, io.EOF
		}
		if e.w == nil {
			e.w = pcapgo.NewWriter(&e.buf)
			if err := e.w.WriteFileHeader(1<<18, layers.LinkTypeEthernet); err != nil {
				return 0, err
			}
		}
		e.left--
		data := e.next(e.left)
		if err := e.w.WritePacket(gopacket.CaptureInfo{CaptureLength: len(data), Length: len(data)}, data); err != nil {
			return 0, err
		}
	}
	return e.buf.Read(b)
}

// TestMemory reads captures that try to make the reader keep much. Its memory
// stays below the figures in the documentation.
func TestMemory(t *testing.T) {
	junk := noise(1400, 3)
	begin := func(e *endless) *talk {
		tp := &tape{}
		k := tp.talk(spec{})
		k.null(1)
		tp2 := tp
		at := 0
		next := e.next
		e.next = func(i int) []byte {
			if at < len(tp2.frames) {
				at++
				return mustPacket(t, tp2, at-1)
			}
			return next(i)
		}
		return k
	}
	segment := func(k *talk, seq uint32, data []byte) []byte {
		f := frame{from: k.ends[client], to: k.ends[server], seq: seq, ack: k.seq[server], data: data}
		return f.packet(t, layers.LinkTypeEthernet)
	}
	for name, tc := range map[string]struct {
		packets int
		limit   uint64
		make    func(e *endless)
	}{
		"segments after a hole": {20000, 16 << 20, func(e *endless) {
			var k *talk
			e.next = func(i int) []byte { return segment(k, k.seq[client]+uint32(100000-i)*1400, junk) }
			k = begin(e)
		}},
		"a Send without end": {20000, 16 << 20, func(e *endless) {
			var k *talk
			off := uint32(0)
			e.next = func(int) []byte {
				u := []byte{control(0, false), 0x40 | iwarp.OpSend}
				for _, w := range []uint32{0, iwarp.QueueSend, 2, off} {
					u = binary.BigEndian.AppendUint32(u, w)
				}
				off += uint32(len(junk))
				b := k.fpdu(client, append(u, junk...))
				p := segment(k, k.seq[client], b)
				k.seq[client] += uint32(len(b))
				return p
			}
			k = begin(e)
		}},
		"segments after holes of many connections": {128 * 30, maxWaitingAll + 32<<20, func(e *endless) {
			long := noise(60000, 5)
			e.next = func(i int) []byte {
				n := 128*30 - 1 - i
				f := frame{from: netip.AddrPortFrom(netip.MustParseAddr("10.0.0.1"), uint16(1000+n%128)), to: netip.MustParseAddrPort("192.0.2.1:20049"), seq: 1, ack: 77, flags: "S"}
				if n >= 128 {
					f.flags, f.seq, f.ack, f.data = "", uint32(n)*uint32(len(long)), 1, long
				}
				return f.packet(t, layers.LinkTypeEthernet)
			}
		}},
		"other connections": {maxFlows + 20000, 48 << 20, func(e *endless) {
			e.next = func(i int) []byte {
				f := frame{from: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), 5), to: netip.MustParseAddrPort("192.0.2.1:80"), seq: 1, ack: 1, data: junk}
				return f.packet(t, layers.LinkTypeEthernet)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			e := &endless{left: tc.packets}
			tc.make(e)
			var most uint64
			base := inUse()
			_, err := Check(context.Background(), e, Options{Progress: func(packets, _ uint64) {
				if packets%700 == 0 {
					most = max(most, inUse())
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%d KiB", int64(most-base)>>10)
			if most > base+tc.limit {
				t.Errorf("%d bytes are in use, %d before", most, base)
			}
		})
	}
}

// TestIgnoredFlow checks that a flow keeps no segments once it is ignored. They would count for
// ever among those of all flows.
func TestIgnoredFlow(t *testing.T) {
	r := &reader{report: newReport()}
	f := &flow{ends: [2]netip.AddrPort{netip.MustParseAddrPort("192.0.2.7:5"), netip.MustParseAddrPort("192.0.2.1:80")}, all: &r.waiting}
	newLink(r, f, true)
	at := func(seq uint32, text string, syn bool) {
		f.add(&segment{from: f.ends[0], to: f.ends[1], seq: seq, syn: syn, data: []byte(text), length: len(text)})
	}
	at(0, "", true)
	at(500, "after two holes", false)
	at(19, "Host: example.net", false)
	if f.deaf || r.waiting == 0 {
		t.Errorf("%d bytes wait, ignored: %v", r.waiting, f.deaf)
	}
	at(1, "GET / HTTP/1.1\r\n\r\n"[:18], false)
	if !f.deaf || len(f.waiting) > 0 || r.waiting != 0 {
		t.Errorf("%d segments wait, %d bytes, ignored: %v", len(f.waiting), r.waiting, f.deaf)
	}
}

func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// FuzzCapture reads arbitrary bytes. Check must end.
func FuzzCapture(f *testing.F) {
	for _, s := range []spec{{}, {crc: true, v6: true}, {markers: [2]bool{true, true}}} {
		tp := &tape{}
		session(tp.talk(s))
		f.Add(tp.file(f))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		report, err := Check(t.Context(), bytes.NewReader(b), Options{})
		if report == nil && err == nil {
			t.Error("neither a report nor an error")
		}
	})
}

// FuzzSegments sends arbitrary TCP segments in a connection. The judge must get
// no events while a direction is blind.
func FuzzSegments(f *testing.F) {
	f.Add(uint8(0), []byte("\x00\x00\x10\x00abc\x01\x00\x08\x03defg"))
	f.Add(uint8(7), []byte("\x80\x01\x20\xffabcdefgh\x01\x05\x08\x13defg"))
	f.Fuzz(func(t *testing.T, kind uint8, script []byte) {
		tp := &tape{}
		k := tp.talk(spec{crc: kind&1 != 0, markers: [2]bool{kind&2 != 0, kind&4 != 0}})
		k.read(1, 3000)
		k.wrote(2, 500)
		if kind&8 != 0 {
			tp.frames = tp.frames[5:]
		}
		for len(script) >= 4 { // each step: kind, index, offset, size, bytes
			what, which, off, size := script[0], int(script[1]), int8(script[2]), int(script[3])
			script = script[4:]
			size = min(size, len(script))
			i := which % len(tp.frames)
			fr := tp.frames[i]
			switch what % 5 {
			case 0: // replace the bytes
				fr.data, fr.cut = script[:size], 0
			case 1: // move the segment
				fr.seq += uint32(int32(off))
			case 2:
				fr.ack += uint32(int32(off)) * 100
			case 3:
				fr.cut = size % (len(fr.data) + 1)
			case 4:
				fr.flags = []string{"S", "F", "R", ""}[size%4]
			}
			tp.frames = slices.Insert(tp.frames, (i+int(uint8(off)))%len(tp.frames), fr)
			script = script[size:]
			if len(tp.frames) > 200 {
				break
			}
		}
		if _, err := Check(t.Context(), bytes.NewReader(tp.file(t)), Options{}); err != nil {
			t.Error(err)
		}
	})
}

package softiwarp

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestReplies: the passive side's answer to each kind of request.
func TestReplies(t *testing.T) {
	enhanced := func(e mpa.Enhanced) mpa.Frame {
		return mpa.Frame{Kind: mpa.Request, Revision: mpa.Revision2, Enhanced: true, EnhancedData: e}
	}
	for _, c := range []struct {
		name     string
		request  mpa.Frame
		own      rdmacm.ConnParam
		config   Config
		want     mpa.Enhanced // in an enhanced reply
		crc      bool
		ird, ord int
	}{
		{name: "revision 1", request: mpa.Frame{Revision: 1}, own: rdmacm.ConnParam{ResponderResources: 3, InitiatorDepth: 4}, ird: 3, ord: 4},
		{name: "revision 1 with CRC", request: mpa.Frame{Revision: 1, CRC: true}, crc: true},
		{name: "revision 2, not enhanced", request: mpa.Frame{Revision: 2}, own: rdmacm.ConnParam{InitiatorDepth: 1}, ord: 1},
		{
			name: "Linux NFS client", request: enhanced(mpa.Enhanced{IRD: 128}),
			own:  rdmacm.ConnParam{ResponderResources: 16, InitiatorDepth: 64},
			want: mpa.Enhanced{IRD: 0, ORD: 64}, ird: 0, ord: 64,
		},
		{
			name: "Linux: ORD 0 would fail its Reads", request: enhanced(mpa.Enhanced{IRD: 128, ORD: 4}),
			own:  rdmacm.ConnParam{ResponderResources: 16},
			want: mpa.Enhanced{IRD: 4, ORD: 1}, ird: 4, ord: 0,
		},
		{
			name: "both ask for more than the other has", request: enhanced(mpa.Enhanced{IRD: 2, ORD: 100}),
			own:  rdmacm.ConnParam{ResponderResources: 3, InitiatorDepth: 50},
			want: mpa.Enhanced{IRD: 3, ORD: 2}, ird: 3, ord: 2,
		},
		{
			name: "more than the device has", request: enhanced(mpa.Enhanced{IRD: 5000, ORD: 5000}),
			own:  rdmacm.ConnParam{ResponderResources: 1000, InitiatorDepth: 1000},
			want: mpa.Enhanced{IRD: maxReads, ORD: maxReads}, ird: maxReads, ord: maxReads,
		},
		{
			name: "negative", request: enhanced(mpa.Enhanced{IRD: 5, ORD: 5}),
			own:  rdmacm.ConnParam{ResponderResources: -1, InitiatorDepth: -1},
			want: mpa.Enhanced{IRD: 0, ORD: 1},
		},
		{
			name:    "peer to peer",
			request: enhanced(mpa.Enhanced{IRD: 1, ORD: 1, PeerToPeer: true, RTR: mpa.RTRSend | mpa.RTRRead}),
			own:     rdmacm.ConnParam{ResponderResources: 1, InitiatorDepth: 1},
			want:    mpa.Enhanced{IRD: 1, ORD: 1, PeerToPeer: true, RTR: mpa.RTRRead}, ird: 1, ord: 1,
		},
		{
			name:    "peer to peer, the indication is the only Read",
			request: enhanced(mpa.Enhanced{IRD: 1, ORD: 1, PeerToPeer: true, RTR: mpa.RTRRead}),
			own:     rdmacm.ConnParam{InitiatorDepth: 1},
			want:    mpa.Enhanced{IRD: 1, ORD: 1, PeerToPeer: true, RTR: mpa.RTRRead}, ird: 1, ord: 1,
		},
		{name: "CRC wanted here", request: enhanced(mpa.Enhanced{}), config: Config{CRC: true}, crc: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, c.config)
			peer := a.dial()
			c.request.PrivateData = []byte("question")
			peer.frame(c.request)
			s := newSide(t, a.p, must(a.l.GetRequest(t.Context()))(t), testAttr)
			if got := s.id.Peer(); string(got.PrivateData) != "question" ||
				got.ResponderResources != int(c.request.EnhancedData.IRD) || got.InitiatorDepth != int(c.request.EnhancedData.ORD) {
				t.Errorf("request told as %+v", got)
			}
			c.own.PrivateData = []byte("answer")
			verbstest.Must(t, s.id.Accept(t.Context(), c.own))
			r := must(readFrame(peer.conn, mpa.Reply))(t)
			if r.Revision != c.request.Revision || r.Enhanced != c.request.Enhanced || r.EnhancedData != c.want ||
				r.CRC != c.crc || r.Markers || r.Reject || string(r.PrivateData) != "answer" {
				t.Errorf("reply %+v", r)
			}
			if ird, ord := s.id.Negotiated(); ird != c.ird || ord != c.ord {
				t.Errorf("negotiated %d, %d; want %d, %d", ird, ord, c.ird, c.ord)
			}
		})
	}
}

// TestBadRequests: a request that is not valid, or can't be served, never reaches the
// consumer, and its connection is closed with one line in the log.
func TestBadRequests(t *testing.T) {
	good := must((&mpa.Frame{Revision: mpa.Revision2, Enhanced: true, PrivateData: make([]byte, 100)}).Append(nil))(t)
	with := func(at int, v byte) []byte {
		b := bytes.Clone(good)
		b[at] = v
		return b
	}
	for name, b := range map[string][]byte{
		"another protocol":       []byte("GET / HTTP/1.1\r\nHost: rdmad\r\n\r\n"),
		"reply":                  bytes.Replace(good, []byte("Req"), []byte("Rep"), 1),
		"revision 0":             with(17, 0),
		"revision 3":             with(17, 3),
		"64 KiB of private data": with(18, 0xff),
		"513 bytes":              append(with(18, 2)[:19], 1),
		"enhanced without data":  append(with(18, 0)[:19], 3),
	} {
		var log bytes.Buffer
		logged := make(chan struct{})
		a := newArena(t, Config{Logger: testLogger(&log, logged)})
		peer := a.dial()
		peer.write(b)
		if rest, err := io.ReadAll(peer.conn); len(rest) > 0 || (err != nil && !errors.Is(err, unix.ECONNRESET)) {
			t.Errorf("%s: answered with %x, %v", name, rest, err)
		}
		<-logged
		if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), peer.conn.LocalAddr().String()) {
			t.Errorf("%s: logged %q", name, log.String())
		}
		a.nobodyAsks()
	}
}

// nobodyAsks checks that the next request is one that the test makes itself.
func (a *arena) nobodyAsks() {
	a.Helper()
	f := rawRequest()
	f.PrivateData = []byte("it is me")
	peer := a.dial()
	peer.frame(f)
	id := must(a.l.GetRequest(context.Background()))(a.TB)
	if got := string(id.Peer().PrivateData); got != "it is me" {
		a.Errorf("request of another: %q", got)
	}
	if err := id.Close(); err != nil {
		a.Error(err)
	}
	if r := must(readFrame(peer.conn, mpa.Reply))(a.TB); !r.Reject {
		a.Errorf("a request closed unanswered: %+v", r)
	}
}

// TestMarkersRefused: a peer that requires markers is rejected.
func TestMarkersRefused(t *testing.T) {
	a := newArena(t, Config{})
	for _, f := range []mpa.Frame{{Revision: 1, Markers: true}, {Revision: 2, Enhanced: true, Markers: true}} {
		peer := a.dial()
		peer.frame(f)
		r := must(readFrame(peer.conn, mpa.Reply))(t)
		if !r.Reject || r.Markers || r.Enhanced != f.Enhanced || r.Revision != f.Revision {
			t.Errorf("reply %+v", r)
		}
		peer.ended()
	}
	a.nobodyAsks()
}

// TestReservedFlags: newer Linux kernels set a bit that RFC 5044 reserves.
func TestReservedFlags(t *testing.T) {
	a := newArena(t, Config{})
	f := rawRequest()
	b := must(f.Append(nil))(t)
	b[16] |= 0x08
	peer := a.dial()
	peer.write(b)
	id := must(a.l.GetRequest(t.Context()))(t)
	verbstest.Must(t, id.Reject(t.Context(), []byte("bye")))
	if r := must(readFrame(peer.conn, mpa.Reply))(t); !r.Reject || !r.Enhanced || string(r.PrivateData) != "bye" {
		t.Errorf("reply %+v", r)
	}
	id.Close()
}

// TestPassiveSideWaits: nothing is sent before the active side's first FPDU, even if requests
// are posted (Linux otherwise resets the connection).
func TestPassiveSideWaits(t *testing.T) {
	a := newArena(t, Config{})
	peer, s := a.attach(rawRequest())
	s.send(verbs.SendWR{ID: 1, Flags: verbs.SendSignaled})
	if n := peekable(t, peer.conn); n > 0 {
		t.Fatalf("%d bytes were sent before the first FPDU", n)
	}
	peer.wake()
	peer.expect(rdmap.Send)
	s.succeed(1)
}

// TestPassiveSideFailsSilently: not even a Terminate is sent before that FPDU.
func TestPassiveSideFailsSilently(t *testing.T) {
	a := newArena(t, Config{})
	peer, s := a.attach(rawRequest())
	s.qp.Fail()
	peer.ended()
}

// peekable returns how many bytes can be read now.
func peekable(t *testing.T, conn *net.TCPConn) (n int) {
	raw := must(conn.SyscallConn())(t)
	var b [64]byte
	if err := raw.Control(func(fd uintptr) {
		n, _, _ = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestRTR: every kind of ready-to-receive indication frees the passive side
// to send and is invisible to the consumer.
func TestRTR(t *testing.T) {
	for _, c := range []struct {
		name    string
		offered mpa.RTR
		chosen  mpa.RTR
		send    func(p *rawPeer)
		sendMSN uint32 // of the next Send
		readMSN uint32
	}{
		{"Write", mpa.RTRWrite | mpa.RTRRead, mpa.RTRWrite, (*rawPeer).wake, 1, 1},
		{"Read", mpa.RTRRead | mpa.RTRSend, mpa.RTRRead, func(p *rawPeer) {
			p.message(rdmap.ReadRequest, 1, readRequest(1, 0, 0))
			p.expect(rdmap.ReadResponse)
		}, 1, 2},
		{"Send", mpa.RTRSend, mpa.RTRSend, func(p *rawPeer) { p.message(rdmap.Send, 1, nil) }, 2, 1},
		{"empty FPDU", mpa.RTRSend, mpa.RTRSend, func(p *rawPeer) { p.ulpdu(nil) }, 1, 1},
		{"Send with data is none", mpa.RTRSend, mpa.RTRSend, func(*rawPeer) {}, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newArena(t, Config{})
			request := rawRequest()
			request.EnhancedData.PeerToPeer, request.EnhancedData.RTR = true, c.offered
			peer, s := a.attach(request)
			s.recv(verbs.RecvWR{ID: 5, SGL: sge(s.region(make([]byte, 8), verbs.AccessLocalWrite), 0, 8)})
			c.send(peer)
			if c.name != "Send with data is none" {
				s.send(verbs.SendWR{ID: 1, Flags: verbs.SendSignaled})
				peer.expect(rdmap.Send)
				s.succeed(1)
			}
			peer.message(rdmap.ReadRequest, c.readMSN, readRequest(0, 0, 0))
			peer.message(rdmap.Send, c.sendMSN, []byte("data"))
			if wc := s.succeed(1)[0]; wc.ID != 5 || wc.ByteLen != 4 {
				t.Errorf("Receive completed as %+v", wc)
			}
			peer.expect(rdmap.ReadResponse)
		})
	}
}

// rawServer accepts one connection, answers its request with f and runs serve.
func rawServer(t *testing.T, f func(request mpa.Frame) []byte, serve func(p *rawPeer)) (address string) {
	l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(testTimeout))
		p := &rawPeer{TB: t, conn: conn.(*net.TCPConn)}
		request, err := readFrame(p.conn, mpa.Request)
		if err != nil {
			t.Errorf("raw server: %v", err)
			return
		}
		_, _ = conn.Write(f(request))
		serve(p)
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
	})
	return l.Addr().String()
}

func replyWith(f mpa.Frame) func(mpa.Frame) []byte {
	return func(mpa.Frame) []byte {
		f.Kind = mpa.Reply
		b, _ := f.Append(nil)
		return b
	}
}

// TestDepthIsNotNegotiated: a reply that leaves the depths open limits nothing.
func TestDepthIsNotNegotiated(t *testing.T) {
	address := rawServer(t, func(mpa.Frame) []byte {
		b, _ := (&mpa.Frame{Kind: mpa.Reply, Revision: 2, Enhanced: true}).Append(nil)
		return append(b[:len(b)-mpa.EnhancedSize], 0x3f, 0xff, 0x3f, 0xff)
	}, func(p *rawPeer) { _, _ = io.Copy(io.Discard, p.conn) })
	s, err := dialRaw(t, Config{}, address, testParam)
	verbstest.Must(t, err)
	if ird, ord := s.id.Negotiated(); ird != testParam.ResponderResources || ord != testParam.InitiatorDepth {
		t.Errorf("IRD %d, ORD %d, want %+v", ird, ord, testParam)
	}
	verbstest.Should(t, s.id.Disconnect())
}

func dialRaw(t *testing.T, config Config, address string, c rdmacm.ConnParam) (*side, error) {
	p := newProvider(t, config)
	s := newSide(t, p, must(p.Resolve(t.Context(), address))(t), testAttr)
	s.recv(verbs.RecvWR{ID: 1})
	return s, s.id.Connect(t.Context(), c)
}

// TestBadReplies: an active side that gets a wrong answer fails, sends the reason if RFC 6581
// has a code for it, and flushes its queue pair.
func TestBadReplies(t *testing.T) {
	for _, c := range []struct {
		name  string
		reply func(mpa.Frame) []byte
		want  error
		fault *rdmap.Fault
	}{
		{"nothing", func(mpa.Frame) []byte { return nil }, io.EOF, nil},
		{"cut off", func(mpa.Frame) []byte { return []byte("MPA ID Rep") }, io.ErrUnexpectedEOF, nil},
		{"another protocol", func(mpa.Frame) []byte { return []byte("SSH-2.0-OpenSSH_9.2p1 Debian\r\n") }, mpa.ErrKey, nil},
		{"hostile length", func(mpa.Frame) []byte {
			return append([]byte("MPA ID Rep Frame\x10\x02\xff\xff"), make([]byte, 1<<16)...)
		}, mpa.ErrPrivateData, nil},
		{"enhanced without data", func(mpa.Frame) []byte { return []byte("MPA ID Rep Frame\x10\x02\x00\x00") }, mpa.ErrPrivateData, nil},
		{"markers", replyWith(mpa.Frame{Revision: 2, Enhanced: true, Markers: true}), errMarkers, nil},
		{"not enhanced", replyWith(mpa.Frame{Revision: 2}), errEnhanced, nil},
		{"wants to read more", replyWith(mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{ORD: 17}}), errIRD, &rdmap.MPAInsufficientIRD},
		{"no RTR chosen", replyWith(mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{PeerToPeer: true}}), errNoRTR, &rdmap.MPANoMatchingRTR},
	} {
		t.Run(c.name, func(t *testing.T) {
			address := rawServer(t, c.reply, func(p *rawPeer) {
				if c.fault != nil {
					_, payload := p.expect(rdmap.Terminate)
					var term rdmap.Term
					if _, err := term.Decode(payload); err != nil || term.Fault != *c.fault {
						t.Errorf("terminated with %+v, %v", term, err)
					}
				}
			})
			s, err := dialRaw(t, Config{}, address, testParam)
			if !errors.Is(err, c.want) {
				t.Errorf("Connect: %v, want %v", err, c.want)
			}
			if wc := s.complete(1)[0]; wc.Status != verbs.WCWRFlushErr {
				t.Errorf("Receive completed as %+v", wc)
			}
			if s.qp.State() != verbs.QPErr || s.qp.Err() == nil {
				t.Errorf("queue pair in state %d: %v", s.qp.State(), s.qp.Err())
			}
		})
	}
}

// TestRejected: the peer's rejection and its private data, in both revisions.
func TestRejected(t *testing.T) {
	for _, rev := range []int{mpa.Revision1, mpa.Revision2} {
		reply := mpa.Frame{Revision: uint8(rev), Enhanced: rev == 2, Reject: true, PrivateData: []byte("full")}
		address := rawServer(t, replyWith(reply), func(*rawPeer) {})
		_, err := dialRaw(t, Config{MPARevision: rev}, address, testParam)
		var rejected *rdmacm.RejectedError
		if !errors.As(err, &rejected) || string(rejected.PrivateData) != "full" {
			t.Errorf("revision %d: %v", rev, err)
		}
	}
}

// TestRequests: the request of an active side, and its RTR indication.
func TestRequests(t *testing.T) {
	for _, c := range []struct {
		name     string
		config   Config
		want     mpa.Frame
		reply    mpa.Frame
		first    func(p *rawPeer) // what must come unasked
		sendMSN  uint32
		readMSN  uint32
		ird, ord int
	}{
		{
			name:    "peer to peer, Write",
			want:    mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16, PeerToPeer: true, RTR: 7}},
			reply:   mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 3, ORD: 2, PeerToPeer: true, RTR: mpa.RTRWrite}},
			first:   func(p *rawPeer) { p.expect(rdmap.Write) },
			sendMSN: 1, readMSN: 1, ird: 2, ord: 3,
		},
		{
			name:    "peer to peer, Send",
			want:    mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16, PeerToPeer: true, RTR: 7}},
			reply:   mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16, PeerToPeer: true, RTR: mpa.RTRSend}},
			first:   func(p *rawPeer) { p.expect(rdmap.Send) },
			sendMSN: 2, readMSN: 1, ird: 16, ord: 16,
		},
		{
			name:  "peer to peer, Read",
			want:  mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16, PeerToPeer: true, RTR: 7}},
			reply: mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16, PeerToPeer: true, RTR: mpa.RTRRead}},
			first: func(p *rawPeer) {
				r := p.asked()
				p.answer(r, 0, true, nil)
			},
			sendMSN: 1, readMSN: 2, ird: 16, ord: 16,
		},
		{
			name:    "a peer that knows no peer to peer",
			want:    mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16, PeerToPeer: true, RTR: 7}},
			reply:   mpa.Frame{Revision: 2, Enhanced: true, CRC: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16}},
			first:   func(*rawPeer) {},
			sendMSN: 1, readMSN: 1, ird: 16, ord: 16,
		},
		{
			name: "client and server, with CRC", config: Config{ClientServer: true, CRC: true},
			want:    mpa.Frame{Revision: 2, CRC: true, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16}},
			reply:   mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16}},
			first:   func(*rawPeer) {},
			sendMSN: 1, readMSN: 1, ird: 16, ord: 16,
		},
		{
			name: "revision 1", config: Config{MPARevision: 1},
			want:    mpa.Frame{Revision: 1},
			reply:   mpa.Frame{Revision: 1},
			first:   func(*rawPeer) {},
			sendMSN: 1, readMSN: 1, ird: 16, ord: 16,
		},
		{
			name:    "a peer of revision 1",
			want:    mpa.Frame{Revision: 2, Enhanced: true, EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16, PeerToPeer: true, RTR: 7}},
			reply:   mpa.Frame{Revision: 1},
			first:   func(*rawPeer) {},
			sendMSN: 1, readMSN: 1, ird: 16, ord: 16,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			posted := make(chan struct{})
			address := rawServer(t, func(got mpa.Frame) []byte {
				if string(got.PrivateData) != "mine" || got.Revision != c.want.Revision || got.CRC != c.want.CRC ||
					got.Enhanced != c.want.Enhanced || got.EnhancedData != c.want.EnhancedData {
					t.Errorf("request %+v, want %+v", got, c.want)
				}
				c.reply.PrivateData = []byte("theirs")
				return replyWith(c.reply)(got)
			}, func(p *rawPeer) {
				p.crc = c.want.CRC || c.reply.CRC
				c.first(p)
				<-posted
				if h, _ := p.expect(rdmap.Send); h.MSN != c.sendMSN {
					t.Errorf("first Send has MSN %d", h.MSN)
				}
				h, payload := p.expect(rdmap.ReadRequest)
				if h.MSN != c.readMSN {
					t.Errorf("first Read has MSN %d", h.MSN)
				}
				var r rdmap.Read
				_, _ = r.Decode(payload)
				p.answer(r, 0, true, []byte("read"))
			})
			param := testParam
			param.PrivateData = []byte("mine")
			s, err := dialRaw(t, c.config, address, param)
			verbstest.Must(t, err)
			if got := s.id.Peer(); string(got.PrivateData) != "theirs" || got.ResponderResources != int(c.reply.EnhancedData.IRD) {
				t.Errorf("reply told as %+v", got)
			}
			if ird, ord := s.id.Negotiated(); ird != c.ird || ord != c.ord {
				t.Errorf("negotiated %d, %d", ird, ord)
			}
			sink := s.region(make([]byte, 4), verbs.AccessLocalWrite)
			s.send(verbs.SendWR{ID: 2, Flags: verbs.SendSignaled},
				verbs.SendWR{ID: 3, Op: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: sge(sink, 0, 4)})
			close(posted)
			s.succeed(2)
			if string(sink.Bytes()) != "read" {
				t.Errorf("read %q", sink.Bytes())
			}
		})
	}
}

// TestNoReads: without an ORD no Read can be posted.
func TestNoReads(t *testing.T) {
	a := newArena(t, Config{})
	request := rawRequest()
	request.EnhancedData = mpa.Enhanced{}
	peer, s := a.attach(request)
	mr := s.region(make([]byte, 8), verbs.AccessLocalWrite)
	if n, err := s.qp.PostSend([]verbs.SendWR{{Op: verbs.OpRDMARead, SGL: sge(mr, 0, 8)}}); n != 0 || !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("posted %d, %v", n, err)
	}
	// And none is taken.
	peer.message(rdmap.ReadRequest, 1, readRequest(0, 0, 0))
	peer.terminated(rdmap.UntaggedNoBuffer)
}

// TestSolicited: the opcode says whether the event is solicited.
func TestSolicited(t *testing.T) {
	a := newArena(t, Config{})
	peer, s := a.attach(rawRequest())
	peer.wake()
	s.send(verbs.SendWR{Flags: verbs.SendSolicited},
		verbs.SendWR{Op: verbs.OpSendInvalidate, InvalidateRKey: 7},
		verbs.SendWR{Op: verbs.OpSendInvalidate, InvalidateRKey: 8, Flags: verbs.SendSolicited})
	peer.expect(rdmap.SendSolicited)
	for _, want := range []struct {
		op   rdmap.Opcode
		stag uint32
	}{{rdmap.SendInvalidate, 7}, {rdmap.SendSolicitedInvalidate, 8}} {
		if h, _ := peer.expect(want.op); h.ULP2 != want.stag || h.QN != ddp.QueueSend {
			t.Errorf("header %+v", h)
		}
	}
}

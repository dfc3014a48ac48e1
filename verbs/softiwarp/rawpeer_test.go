package softiwarp

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// rawPeer is a peer made of a socket and the codecs. It sends what a test wants, right or
// wrong.
type rawPeer struct {
	testing.TB
	conn *net.TCPConn
	crc  bool
}

func newRawPeer(t testing.TB, conn net.Conn) *rawPeer {
	_ = conn.SetDeadline(time.Now().Add(testTimeout))
	t.Cleanup(func() { conn.Close() })
	return &rawPeer{TB: t, conn: conn.(*net.TCPConn)}
}

// rawRequest is the request of a client without special options.
func rawRequest() mpa.Frame {
	return mpa.Frame{
		Kind: mpa.Request, Revision: mpa.Revision2, Enhanced: true,
		EnhancedData: mpa.Enhanced{IRD: 16, ORD: 16},
	}
}

func (p *rawPeer) write(b []byte) {
	p.Helper()
	if _, err := p.conn.Write(b); err != nil {
		p.Fatalf("raw peer: %v", err)
	}
}

func (p *rawPeer) frame(f mpa.Frame) {
	p.Helper()
	p.write(must(f.Append(nil))(p))
}

// ulpdu sends one FPDU.
func (p *rawPeer) ulpdu(b []byte) {
	p.Helper()
	p.write(mpa.AppendFPDU(nil, b, p.crc))
}

// segment sends one DDP segment.
func (p *rawPeer) segment(op rdmap.Opcode, h ddp.Header, payload []byte) {
	p.Helper()
	h.ULP = rdmap.Control(op)
	p.ulpdu(append(h.Append(nil), payload...))
}

// message sends an untagged message of one segment.
func (p *rawPeer) message(op rdmap.Opcode, msn uint32, payload []byte) {
	p.Helper()
	p.segment(op, ddp.Header{Last: true, QN: queueOf(op), MSN: msn}, payload)
}

// next reads the next FPDU's ULPDU. It returns an error if no FPDU follows.
func (p *rawPeer) next() ([]byte, error) {
	var b [mpa.MaxFPDU]byte
	if _, err := io.ReadFull(p.conn, b[:mpa.LengthSize]); err != nil {
		return nil, err
	}
	size := mpa.FPDUSize(int(binary.BigEndian.Uint16(b[:])))
	if _, err := io.ReadFull(p.conn, b[mpa.LengthSize:size]); err != nil {
		return nil, err
	}
	ulpdu, _, err := mpa.DecodeFPDU(b[:size], p.crc)
	return bytes.Clone(ulpdu), err
}

// unread waits for data without reading it: a connection with such data is reset when it is
// closed.
func (p *rawPeer) unread() {
	p.Helper()
	raw, err := p.conn.SyscallConn()
	if err == nil {
		err = raw.Read(func(fd uintptr) bool {
			n, _, err := unix.Recvfrom(int(fd), make([]byte, 1), unix.MSG_PEEK)
			return n > 0 || !errors.Is(err, unix.EAGAIN)
		})
	}
	if err != nil {
		p.Fatal(err)
	}
}

// expect reads the next segment, which must have the given opcode. Empty
// Writes before it are nudges, which come when this side is slow.
func (p *rawPeer) expect(op rdmap.Opcode) (ddp.Header, []byte) {
	p.Helper()
	nudge := ddp.Header{Tagged: true, Last: true, ULP: rdmap.Control(rdmap.Write)}
	for {
		b, err := p.next()
		if err != nil {
			p.Fatalf("raw peer: waiting for opcode %d: %v", op, err)
		}
		var h ddp.Header
		n, err := h.Decode(b)
		if err != nil {
			p.Fatalf("raw peer: %x: %v", b, err)
		}
		if op != rdmap.Write && h == nudge && n == len(b) {
			continue
		}
		return p.check(op, h), b[n:]
	}
}

func (p *rawPeer) check(op rdmap.Opcode, h ddp.Header) ddp.Header {
	p.Helper()
	if h.ULP != rdmap.Control(op) {
		p.Fatalf("raw peer: got %+v, not opcode %d", h, op)
	}
	return h
}

// terminated reads up to the Terminate, which must have the fault, and checks that the stream
// ends after it.
func (p *rawPeer) terminated(want rdmap.Fault) rdmap.Term {
	p.Helper()
	for {
		b, err := p.next()
		if err != nil {
			p.Fatalf("raw peer: no Terminate: %v", err)
		}
		var h ddp.Header
		n := must(h.Decode(b))(p)
		if h.ULP != rdmap.Control(rdmap.Terminate) {
			continue
		}
		if h.QN != ddp.QueueTerminate || h.MSN != 1 || h.MO != 0 || !h.Last || h.Tagged {
			p.Errorf("header of the Terminate: %+v", h)
		}
		var term rdmap.Term
		must(term.Decode(b[n:]))(p)
		if term.Fault != want {
			p.Fatalf("terminated with %v (%d/%d/%#x), want %v", term.Fault, term.Layer, term.Type, term.Code, want)
		}
		p.ended()
		return term
	}
}

// ended checks that nothing more comes.
func (p *rawPeer) ended() {
	p.Helper()
	if b, err := p.next(); !errors.Is(err, io.EOF) {
		p.Fatalf("raw peer: got %x, %v; want the end", b, err)
	}
}

// arena is a passive side under attack: a listener that serves raw peers,
// and a witness connection that must not notice.
type arena struct {
	testing.TB
	p      *Provider
	l      rdmacm.Listener
	near   *side // the witness's ends
	far    *side
	sink   verbs.MR
	config Config
}

func newArena(t testing.TB, config Config) *arena {
	a := &arena{TB: t, p: newProvider(t, config), config: config}
	a.near, a.far = connectWith(t, a.p, a.p, testParam, testParam)
	a.sink = a.far.region(make([]byte, 64), verbs.AccessLocalWrite)
	a.l = must(a.p.Listen(t.Context(), "127.0.0.1:0"))(t)
	t.Cleanup(func() { a.l.Close() })
	return a
}

// dial makes a TCP connection to the listener.
func (a *arena) dial() *rawPeer {
	a.Helper()
	return a.dialFrom("127.0.0.1")
}

// dialFrom is dial from a given address.
func (a *arena) dialFrom(ip string) *rawPeer {
	a.Helper()
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(ip)}}
	return newRawPeer(a.TB, must(d.Dial("tcp", a.l.Addr().String()))(a.TB))
}

// attach connects a raw peer with the given request and returns the side to which it is
// connected.
func (a *arena) attach(request mpa.Frame) (*rawPeer, *side) {
	a.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testTimeout)
	defer cancel()
	peer := a.dial()
	peer.frame(request)
	id := must(a.l.GetRequest(ctx))(a.TB)
	s := newSide(a.TB, a.p, id, testAttr)
	if err := id.Accept(ctx, testParam); err != nil {
		a.Fatal(err)
	}
	reply := must(readFrame(peer.conn, mpa.Reply))(a.TB)
	if reply.Reject {
		a.Fatal("rejected")
	}
	peer.crc = reply.CRC
	return peer, s
}

// calm checks that the witness still works.
func (a *arena) calm() {
	a.Helper()
	a.far.recv(verbs.RecvWR{SGL: sge(a.sink, 0, 64)})
	a.near.send(verbs.SendWR{Flags: verbs.SendSignaled})
	a.far.succeed(1)
	a.near.succeed(1)
}

// terminateOf returns the TerminateError with which a connection ended.
func terminateOf(t testing.TB, err error) *verbs.TerminateError {
	t.Helper()
	var term *verbs.TerminateError
	if !errors.As(err, &term) {
		t.Fatalf("ended with %v, not with a Terminate", err)
	}
	return term
}

// testLogger logs into buf and closes first after the first line.
func testLogger(buf *bytes.Buffer, first chan struct{}) *slog.Logger {
	return slog.New(slog.NewTextHandler(writerFunc(func(b []byte) (int, error) {
		n, err := buf.Write(b)
		if first != nil {
			close(first)
			first = nil
		}
		return n, err
	}), nil))
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

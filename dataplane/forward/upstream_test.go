package forward

import (
	"bufio"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// upstream is a server that does what a test's script says.
type upstream struct {
	t       testing.TB
	l       net.Listener
	address string
}

// newUpstream listens where nobody connects from: a test may close the listener,
// and nothing but another one is to have its port then.
func newUpstream(t testing.TB) *upstream {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &upstream{t: t, l: l, address: l.Addr().String()}
}

// peer is a connection of a forwarder, as its upstream sees it.
type peer struct {
	net.Conn
	t       testing.TB
	records *oncrpc.RecordReader
}

// accept takes the next connection. It is closed with the test.
func (u *upstream) accept() *peer {
	u.t.Helper()
	nc, err := u.l.Accept()
	if err != nil {
		u.t.Fatal(err)
	}
	u.t.Cleanup(func() { nc.Close() })
	return newPeer(u.t, nc)
}

func newPeer(t testing.TB, nc net.Conn) *peer {
	return &peer{Conn: nc, t: t, records: oncrpc.NewRecordReader(bufio.NewReader(nc), 8<<20)}
}

// next reads a whole message; nil at the connection's end.
func (p *peer) next() []byte {
	p.t.Helper()
	if err := p.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil
	}
	_, err := p.records.Next()
	var msg []byte
	if err == nil {
		msg, err = p.records.Read(nil)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
		return nil
	}
	if err != nil {
		p.t.Error(err)
		return nil
	}
	return msg
}

// call reads a call.
func (p *peer) call() (c oncrpc.Call) {
	p.t.Helper()
	msg := p.next()
	n, err := oncrpc.DecodeCall(msg, &c)
	if err != nil {
		p.t.Errorf("%d bytes are no call: %v", len(msg), err)
		return c
	}
	c.Args.Stream = msg[n:]
	return c
}

// send writes a message in fragments of at most n bytes; 0 is in one.
func (p *peer) send(msg []byte, n int) {
	p.t.Helper()
	p.write(record(msg, n))
}

func (p *peer) write(b []byte) {
	p.t.Helper()
	if _, err := p.Write(b); err != nil {
		p.t.Error(err)
	}
}

// record marks a message.
func record(msg []byte, n int) (out []byte) {
	if n == 0 {
		n = max(len(msg), 1)
	}
	for len(msg) > n {
		out = append(oncrpc.AppendRecordMark(out, n, false), msg[:n]...)
		msg = msg[n:]
	}
	return append(oncrpc.AppendRecordMark(out, len(msg), true), msg...)
}

// enc encodes words (int), strings and raw bytes.
func enc(parts ...any) (b []byte) {
	for _, p := range parts {
		switch p := p.(type) {
		case uint32:
			b = xdr.AppendUint32(b, p)
		case int:
			b = xdr.AppendUint32(b, uint32(p))
		case string:
			b = xdr.AppendString(b, p)
		case []byte:
			b = append(b, p...)
		}
	}
	return b
}

// success is a reply with an AUTH_NONE verifier.
func success(xid uint32, results ...any) []byte {
	return append(oncrpc.AppendAcceptedReply(nil, xid), enc(results...)...)
}

package connector

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// scriptConn is a client that has sent all it ever will, and takes whatever it
// is sent.
type scriptConn struct {
	net.Conn
	in     io.Reader
	out    bytes.Buffer
	closed chan struct{}
}

func (c *scriptConn) Read(b []byte) (int, error)  { return c.in.Read(b) }
func (c *scriptConn) Write(b []byte) (int, error) { return c.out.Write(b) }
func (c *scriptConn) Close() error {
	select {
	case <-c.closed:
	default:
		close(c.closed)
	}
	return nil
}

func (c *scriptConn) RemoteAddr() net.Addr {
	return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 700}
}
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// FuzzClient: a client sends arbitrary bytes. It gets whole replies, at most one for each
// counted call. Nothing panics, and nothing is left.
func FuzzClient(f *testing.F) {
	write := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 5, Program: 100003, Version: 3, Procedure: procWrite})
	write = xdr.AppendUint64(xdr.AppendString(write, "handle"), 0)
	write = xdr.AppendString(xdr.AppendUint32(xdr.AppendUint32(write, 9), 0), "some data")
	compound := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 6, Program: 100003, Version: 4, Procedure: 1})
	compound = xdr.AppendUint32(xdr.AppendUint32(xdr.AppendString(compound, ""), 1), 2)
	compound = append(xdr.AppendUint32(compound, 25), make([]byte, 28)...)
	compound = append(xdr.AppendUint32(compound, 38), make([]byte, 28)...)
	f.Add(echoRecord(1, echo.ProcNull, nil), true)
	f.Add(append(echoRecord(1, echo.ProcEcho, opaque(100)), echoRecord(2, echo.ProcRead, xdr.AppendUint32(nil, 5))...), false)
	f.Add(append(echoRecord(3, echo.ProcWrite, opaque(3)), 0x80, 0, 0, 9, 1), false)
	f.Add(bytes.Repeat(echoRecord(4, 9, nil), 10), true)
	f.Add(append(frame(write), frame(compound)...), false)
	f.Add(append(append(oncrpc.AppendRecordMark(nil, 60, false), write[:60]...), frame(write[60:])...), true)
	f.Add(frame(append(oncrpc.AppendAcceptedReply(nil, 7), 1, 2, 3, 4)), false)
	f.Add([]byte{0, 0, 0, 0, 0x80, 0, 0, 4, 1, 2, 3, 4}, false)
	r := newRig(f, newLoopback(f), echo.New(), Config{Connector: spec.Connector{MaxReply: 4096, MaxCalls: 3}})
	f.Fuzz(func(t *testing.T, data []byte, slow bool) {
		before := r.c.Stats()
		nc := &scriptConn{in: bytes.NewReader(data), closed: make(chan struct{})}
		if slow {
			nc.in = iotest.OneByteReader(nc.in)
		}
		cl := &client{nc: nc, addr: tcpaddr.Of(nc.RemoteAddr())}
		var err error
		if cl.seat, err = r.c.place.Admit(cl.addr, cl); err != nil {
			t.Fatal(err)
		}
		r.c.making.Add(1)
		r.c.serve(cl)
		<-nc.closed
		if u := r.c.memory.Usage(); u.Held != 0 || u.Holders != 0 {
			t.Fatalf("%+v", u)
		}
		after := r.c.Stats()
		records := oncrpc.NewRecordReader(&nc.out, 1<<20)
		for replies := uint64(0); ; replies++ {
			if _, err := records.Next(); errors.Is(err, io.EOF) {
				if replies > after.Calls-before.Calls {
					t.Fatalf("%d replies to %d calls", replies, after.Calls-before.Calls)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			msg, err := records.Read(nil)
			if _, mtype, ok := oncrpc.MessageType(msg); err != nil || !ok || mtype != oncrpc.MsgReply {
				t.Fatalf("%x, %v", msg, err)
			}
		}
	})
}

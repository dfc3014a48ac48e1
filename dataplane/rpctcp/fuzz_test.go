package rpctcp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"testing"
	"testing/iotest"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// scriptConn is a connection whose peer has sent all it ever will, and takes
// whatever it is sent.
type scriptConn struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (c *scriptConn) Read(b []byte) (int, error)       { return c.in.Read(b) }
func (c *scriptConn) Write(b []byte) (int, error)      { return c.out.Write(b) }
func (c *scriptConn) Close() error                     { return nil }
func (c *scriptConn) RemoteAddr() net.Addr             { return pipeAddr{} }
func (c *scriptConn) SetReadDeadline(time.Time) error  { return nil }
func (c *scriptConn) SetWriteDeadline(time.Time) error { return nil }

// FuzzServer has a peer send anything. The server answers with whole records,
// one at most for each call it counted, and holds no memory afterwards.
func FuzzServer(f *testing.F) {
	f.Add(record(1, echo.ProcNull, nil), true)
	f.Add(append(record(1, echo.ProcEcho, opaque(100)), record(2, echo.ProcRead, xdr.AppendUint32(nil, 5))...), false)
	f.Add(append(record(3, echo.ProcWrite, opaque(3)), 0x80, 0, 0, 9, 1), false)
	f.Add(bytes.Repeat(record(4, 9, nil), 10), true)
	f.Add([]byte{0, 0, 0, 0, 0x80, 0, 0, 4, 1, 2, 3, 4}, false)
	s := &testServer{Server: NewServer(Config{Handler: echo.New(), MaxCalls: 3, MaxRecord: 4096})}
	f.Cleanup(func() { s.Close() })
	f.Fuzz(func(t *testing.T, data []byte, slow bool) {
		before := s.Stats()
		conn := &scriptConn{in: bytes.NewReader(data)}
		if slow {
			conn.in = iotest.OneByteReader(conn.in)
		}
		s.accept(conn)
		s.running.Wait()
		s.checkMemory(t)
		r := oncrpc.NewRecordReader(&conn.out, 1<<20)
		for replies := uint64(0); ; replies++ {
			if _, err := r.Next(); errors.Is(err, io.EOF) {
				after := s.Stats()
				calls, received := after.Calls-before.Calls, after.BytesReceived-before.BytesReceived
				if replies > calls || received != uint64(len(data)) && after.Errors == before.Errors {
					t.Fatalf("%d replies to %d calls, %d of %d bytes: %+v", replies, calls, received, len(data), after)
				}
				return
			} else if err != nil {
				t.Fatal(err)
			}
			msg, err := r.Read(nil)
			if _, mtype, ok := oncrpc.MessageType(msg); err != nil || !ok || mtype != oncrpc.MsgReply {
				t.Fatalf("%x, %v", msg, err)
			}
		}
	})
}

package rpctcp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// closingListener says when connections that it accepted are closed.
type closingListener struct {
	net.Listener
	closed chan struct{}
}

func (l closingListener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	return &closingConn{nc, l.closed}, err
}

type closingConn struct {
	net.Conn
	closed chan struct{}
}

func (c *closingConn) Close() error {
	select {
	case c.closed <- struct{}{}:
	default:
	}
	return c.Conn.Close()
}

// TestPeerResets: a client that closes with RST after its work has done nothing
// wrong; with a call unanswered or half sent it is counted, and is no error
// either. Neither is worth a line.
func TestPeerResets(t *testing.T) {
	half := record(2, echo.ProcEcho, opaque(5000))[:3000]
	for name, c := range map[string]struct {
		send        []byte
		replies     int
		disconnects uint64
	}{
		"without a call":   {nil, 0, 0},
		"after its work":   {append(record(1, echo.ProcNull, nil), record(2, echo.ProcNull, nil)...), 2, 0},
		"with a call":      {record(1, echo.ProcRead, nil), 0, 1},
		"within a record":  {append(record(1, echo.ProcNull, nil), half...), 1, 1},
		"within a mark":    {append(record(1, echo.ProcNull, nil), half[:2]...), 1, 1},
		"both and a reply": {append(append(record(1, echo.ProcRead, nil), record(2, echo.ProcNull, nil)...), half...), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			entered := make(chan struct{}, 1)
			waits := handlerFunc(func(ctx context.Context, c *oncrpc.Call, _ *oncrpc.Reply) error {
				if c.Procedure != echo.ProcRead {
					return nil
				}
				entered <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			})
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			closing := closingListener{l, make(chan struct{}, 1)}
			s := startServer(t, Config{Handler: waits}, closing)
			nc, records := dialRaw(t, s)
			if _, err := nc.Write(c.send); err != nil {
				t.Fatal(err)
			}
			for range c.replies {
				if _, err := records.Next(); err != nil {
					t.Fatal(err)
				}
				if _, err := records.Read(nil); err != nil {
					t.Fatal(err)
				}
			}
			if len(c.send) > 0 && c.send[4+20+3] == echo.ProcRead {
				<-entered
			}
			if err := nc.(*net.TCPConn).SetLinger(0); err != nil {
				t.Fatal(err)
			}
			nc.Close()
			<-closing.closed
			if err := s.Shutdown(t.Context()); err != nil {
				t.Error(err)
			}
			if got := s.Stats(); got.Errors != 0 || got.Disconnects != c.disconnects || got.Connections != 0 {
				t.Errorf("statistics %+v", got)
			}
			if text := s.log.String(); text != "" {
				t.Errorf("logged:\n%s", text)
			}
		})
	}
}

// TestLineOfTheEnd: one line has the reason for the end of a connection, and its counts.
func TestLineOfTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		send []byte
		want string
	}{
		"closed":  {nil, `level=DEBUG msg="RPC over TCP connection closed" peer=%s reason=EOF calls=2 replies=2 up_for=`},
		"garbage": {[]byte{0xff, 0xff, 0xff, 0xff}, `level=WARN msg="RPC over TCP connection cut" peer=%s reason="`},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var text bytes.Buffer
			log := slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
			s := startServer(t, Config{Handler: echo.New(), Logger: log}, l)
			nc, records := dialRaw(t, s)
			peer := nc.LocalAddr().String()
			for xid := range uint32(2) {
				if _, err := nc.Write(record(xid, echo.ProcNull, nil)); err != nil {
					t.Fatal(err)
				}
				readRecord(t, records)
			}
			if _, err := nc.Write(c.send); err != nil {
				t.Fatal(err)
			}
			if c.send == nil {
				nc.Close()
			}
			_, _ = io.Copy(io.Discard, nc)                  // until the server has closed it
			if err := s.Shutdown(t.Context()); err != nil { // it has logged
				t.Fatal(err)
			}
			if want := fmt.Sprintf(c.want, peer); strings.Count(text.String(), peer) != 1 || !strings.Contains(text.String(), want) || !strings.Contains(text.String(), "calls=2 replies=2 up_for=") {
				t.Errorf("logged %s\nwant %s", &text, want)
			}
		})
	}
}

package forward

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// scriptConn is an upstream in memory: what is read from it is what next gives,
// which is told of every write. It allocates nothing.
type scriptConn struct {
	net.Conn // nil: what is not here is not used
	next     chan []byte
	wrote    func(b []byte)
	have     []byte
	late     bool // there is a deadline for reads: nothing is waited for

	once   sync.Once
	closed chan struct{}
}

// past is the channel of a deadline that has passed.
var past = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func newScriptConn() *scriptConn {
	return &scriptConn{next: make(chan []byte, 1), closed: make(chan struct{})}
}

func (c *scriptConn) Read(b []byte) (int, error) {
	if len(c.have) == 0 {
		var deadline chan struct{}
		if c.late && len(c.next) == 0 {
			deadline = past
		}
		select {
		case more, ok := <-c.next:
			if !ok {
				return 0, io.EOF
			}
			c.have = more
		case <-deadline:
			return 0, os.ErrDeadlineExceeded
		case <-c.closed:
			return 0, net.ErrClosed
		}
	}
	n := copy(b, c.have)
	c.have = c.have[n:]
	return n, nil
}

func (c *scriptConn) Write(b []byte) (int, error) {
	select {
	case <-c.closed:
		return 0, net.ErrClosed
	default:
	}
	if c.wrote != nil {
		c.wrote(b)
	}
	return len(b), nil
}

func (c *scriptConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return nil
}

func (c *scriptConn) SetReadDeadline(t time.Time) error {
	c.late = !t.IsZero()
	return nil
}

func (*scriptConn) SetWriteDeadline(time.Time) error { return nil }
func (*scriptConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }

// memory counts what it has given out.
type memory struct {
	out   atomic.Int64
	scant bool // nothing is there without waiting, and never comes
}

type memoryBuffer struct {
	b []byte
	m *memory
}

func (m *memory) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	if m.scant {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	m.out.Add(1)
	return &memoryBuffer{make([]byte, n), m}, nil
}

func (b *memoryBuffer) Bytes() []byte { return b.b }
func (b *memoryBuffer) Release()      { b.m.out.Add(-1) }

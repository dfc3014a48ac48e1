package rping

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Client is a connection to an rping server. Only one goroutine may use it at a
// time.
type Client struct{ e *endpoint }

// Dial connects to a server. The caller must call Close.
func Dial(ctx context.Context, p rdmacm.Provider, address string) (*Client, error) {
	id, err := p.Resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	e, err := newEndpoint(id, 2)
	if err != nil {
		return nil, err
	}
	if err := id.Connect(ctx, connParam); err != nil {
		return nil, errors.Join(err, e.close())
	}
	return &Client{e}, nil
}

// Ping does count pings of size bytes, 1 to MaxSize, each with different data.
// It compares the data that comes back.
func (c *Client) Ping(ctx context.Context, size, count int) error {
	if size < 1 || size > MaxSize {
		return fmt.Errorf("rping: size %d is not in 1..%d", size, MaxSize)
	}
	for i := range count {
		if err := c.e.ping(ctx, size, i); err != nil {
			return fmt.Errorf("ping %d of %d bytes: %w", i, size, err)
		}
	}
	return nil
}

// Close ends the connection in order and frees its resources.
func (c *Client) Close() error {
	return errors.Join(c.e.id.Disconnect(), c.e.close())
}

func (e *endpoint) ping(ctx context.Context, size, number int) error {
	source, sink := e.data[0], e.data[1]
	fill(source.Bytes()[:size], number)
	clear(sink.Bytes())
	for _, mr := range e.data { // the peer first reads, then writes
		m := message{addr: mr.Addr(), rkey: mr.RKey(), size: uint32(size)}
		if err := e.tell(ctx, m); err != nil {
			return err
		}
		if _, err := e.hear(ctx); err != nil {
			return err
		}
	}
	if !bytes.Equal(source.Bytes()[:size], sink.Bytes()[:size]) {
		return errors.New("data mismatch")
	}
	if rest := sink.Bytes()[size:]; len(bytes.TrimLeft(rest, "\x00")) != 0 {
		return errors.New("data written beyond the buffer's end")
	}
	return nil
}

// fill writes letters that depend on the ping's number, and a final zero.
func fill(b []byte, number int) {
	for i := range b {
		b[i] = 'A' + byte((number+i)%('z'-'A'+1))
	}
	b[len(b)-1] = 0
}

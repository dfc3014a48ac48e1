package rpcrdma

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/rdmad/rdmad/rpcrdma/transport"
)

// maxBackchannelWaiters limits the calls that wait for one client.
const maxBackchannelWaiters = 1024

// Backchannel finds the connection on which a server can call a client: the current one, or
// the client's next one, because a server cannot connect to its clients (RFC 8167 §5.4). A
// client is identified by a key of the upper layer, such as an NFS session. The zero value
// is ready for use. Its methods may be called from any goroutine. It holds a key while the
// client has a connection or a call waits for one.
type Backchannel[K comparable] struct {
	mu      sync.Mutex
	clients map[K]*backchannelClient
}

// backchannelClient is a client with a connection, or with calls that wait for one.
type backchannelClient struct {
	conns   []*Conn // connections that are up; the latest is last
	waiting int
	came    chan struct{} // closed, and replaced, when a connection arrives
}

// Bind registers conn as a connection on which client key can be called, until the
// connection ends. If a client has several, calls use the latest. The owner of conn must
// open its back channel.
func (b *Backchannel[K]) Bind(key K, conn *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.client(key)
	if !slices.Contains(c.conns, conn) && conn.ends.add(bond[K]{b, key}, func() { b.unbind(key, conn) }) {
		c.conns = append(c.conns, conn)
		close(c.came)
		c.came = make(chan struct{})
	}
	b.forget(key, c)
}

// bond names what the end of a connection undoes.
type bond[K comparable] struct {
	b   *Backchannel[K]
	key K
}

// Unbind undoes Bind for all connections of client key. Its calls then wait for its next
// connection.
func (b *Backchannel[K]) Unbind(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.clients[key]; c != nil {
		for _, conn := range c.conns {
			conn.ends.remove(bond[K]{b, key})
		}
		c.conns = nil
		b.forget(key, c)
	}
}

// Call calls client key with Conn.Call, now or once the client has a connection. If the
// connection ends before the reply, the call is repeated on the next, with the same XID.
// ctx bounds the wait: if it ends while there is no connection, the error is
// ErrNoBackchannel and ctx.Err(). The client may then have got the call on a connection that
// was lost.
func (b *Backchannel[K]) Call(ctx context.Context, key K, call *Call) error {
	do := (*transport.Responder).Call
	for lost := losses(0); ; {
		conn, err := b.await(ctx, key)
		if err != nil {
			return err
		}
		if err = do(conn.resp, ctx, call); !connectionEnds(err) {
			return err
		}
		b.unbind(key, conn)
		if err = lost.more(err); err != nil {
			return err
		}
		do = (*transport.Responder).CallAgain
	}
}

// Len returns the number of clients that are connected or that calls wait for.
func (b *Backchannel[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.clients)
}

// connectionEnds reports whether a call failed because its connection ends.
func connectionEnds(err error) bool {
	_, ended := errors.AsType[*Error](err)
	return ended || errors.Is(err, ErrClosed) || errors.Is(err, ErrDraining)
}

// await returns the latest connection of a client, or waits for the next.
func (b *Backchannel[K]) await(ctx context.Context, key K) (*Conn, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.client(key)
	defer b.forget(key, c)
	for len(c.conns) == 0 {
		if c.waiting >= maxBackchannelWaiters {
			return nil, ErrTooManyCalls
		}
		c.waiting++
		err := waitUnlocked(ctx, &b.mu, c.came)
		c.waiting--
		if err != nil && len(c.conns) == 0 {
			return nil, errors.Join(ErrNoBackchannel, err)
		}
	}
	return c.conns[len(c.conns)-1], ctx.Err()
}

// client returns the entry of a client. b.mu is held.
func (b *Backchannel[K]) client(key K) *backchannelClient {
	c := b.clients[key]
	if c == nil {
		if b.clients == nil {
			b.clients = make(map[K]*backchannelClient)
		}
		c = &backchannelClient{came: make(chan struct{})}
		b.clients[key] = c
	}
	return c
}

// unbind removes a connection of a client.
func (b *Backchannel[K]) unbind(key K, conn *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	conn.ends.remove(bond[K]{b, key})
	c := b.clients[key]
	if c == nil {
		return
	}
	c.conns = slices.DeleteFunc(c.conns, func(o *Conn) bool { return o == conn })
	b.forget(key, c)
}

// forget removes a client that has no connection and no waiting calls.
func (b *Backchannel[K]) forget(key K, c *backchannelClient) {
	if len(c.conns) == 0 && c.waiting == 0 && b.clients[key] == c {
		delete(b.clients, key)
	}
}

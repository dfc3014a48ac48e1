package rpcrdma

import (
	"context"
	"errors"
	"slices"
	"sync"
)

// maxBackchannelWaiters is the most calls that wait for one client.
const maxBackchannelWaiters = 1024

// Backchannel finds the connection on which a client can be called: the one it
// has, or the one that it makes next, as a server can't connect to its clients
// (RFC 8167 §5.4). Clients are told apart by a key of the upper layer's, such as an NFS
// session. The zero value is ready; its methods may be called from any
// goroutine. It holds a key while it has a connection or somebody waits for one.
type Backchannel[K comparable] struct {
	mu      sync.Mutex
	clients map[K]*backchannelClient
}

// backchannelClient is a client that is connected or waited for.
type backchannelClient struct {
	conns   []*Conn // that are up; the latest is last
	waiting int
	came    chan struct{} // closed, and replaced, when a connection comes
}

// Bind says that conn is a connection of client key on which it can be called.
// It holds until the connection ends. With several the latest is used. The back
// channel of conn is to be opened by its owner.
func (b *Backchannel[K]) Bind(key K, conn *Conn) {
	b.mu.Lock()
	c := b.client(key)
	bound := slices.Contains(c.conns, conn)
	if !bound {
		c.conns = append(c.conns, conn)
		close(c.came)
		c.came = make(chan struct{})
	}
	b.mu.Unlock()
	if !bound && !conn.ends.add(func() { b.unbind(key, conn) }) {
		b.unbind(key, conn)
	}
}

// Unbind takes back Bind for all connections of client key: calls wait for its
// next.
func (b *Backchannel[K]) Unbind(key K) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if c := b.clients[key]; c != nil {
		c.conns = nil
		b.forget(key, c)
	}
}

// Call calls client key on its connection, now or when it has one, as
// Conn.Call. When the connection ends before the reply, the call is made again
// on the next, under the same XID. ctx bounds the waiting: when it ends while
// there is no connection, the error is ErrNoBackchannel and ctx.Err().
func (b *Backchannel[K]) Call(ctx context.Context, key K, call *Call) error {
	again := false
	for lost := losses(0); ; {
		conn, err := b.await(ctx, key)
		if err != nil {
			return err
		}
		if again {
			err = conn.resp.CallAgain(ctx, call)
		} else {
			err = conn.resp.Call(ctx, call)
		}
		if !connectionEnds(err) {
			return err
		}
		b.unbind(key, conn)
		if err = lost.more(err); err != nil {
			return err
		}
		again = true
	}
}

// Len is the number of clients that are connected or waited for.
func (b *Backchannel[K]) Len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.clients)
}

// connectionEnds says whether a call failed because its connection ends.
func connectionEnds(err error) bool {
	_, ended := errors.AsType[*Error](err)
	return ended || errors.Is(err, ErrClosed) || errors.Is(err, ErrDraining)
}

// await gives the latest connection of a client, or waits for the next.
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
		came := c.came
		b.mu.Unlock()
		select {
		case <-came:
		case <-ctx.Done():
		}
		b.mu.Lock()
		c.waiting--
		if err := ctx.Err(); err != nil && len(c.conns) == 0 {
			return nil, errors.Join(ErrNoBackchannel, err)
		}
	}
	return c.conns[len(c.conns)-1], ctx.Err()
}

// client gives the entry of a client. b.mu is held.
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

// unbind takes a connection back.
func (b *Backchannel[K]) unbind(key K, conn *Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	c := b.clients[key]
	if c == nil {
		return
	}
	c.conns = slices.DeleteFunc(c.conns, func(o *Conn) bool { return o == conn })
	b.forget(key, c)
}

// forget forgets a client that is neither connected nor waited for.
func (b *Backchannel[K]) forget(key K, c *backchannelClient) {
	if len(c.conns) == 0 && c.waiting == 0 && b.clients[key] == c {
		delete(b.clients, key)
	}
}

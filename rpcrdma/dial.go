package rpcrdma

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// DialConfig is what a client is made with; the zero value is good.
type DialConfig struct {
	// Settings at the start; nil is DefaultSettings.
	Settings *Settings
	Logger   *slog.Logger
	// MemoryLimit bounds the client's registered memory, in bytes; 0 is
	// 1 GiB.
	MemoryLimit int64
	// Reconnect, when not nil, makes a client that outlives its connections:
	// when one is lost, the calls in flight are made again on the next, with
	// the XIDs that they had. A server may then carry out a call twice, unless
	// it has a duplicate request cache. The first connection is not tried
	// again: Dial fails.
	Reconnect *Reconnect
	// Handler answers calls of the server (RFC 8167) while the settings allow
	// them (extensions.backchannel, credits.backchannel); nil is nobody. They
	// come inline, and so must the replies go. A client that reconnects does
	// so for them, too, as a server can't.
	Handler oncrpc.Handler
	// Versions remembers servers with which version 2 came to nothing; nil is
	// a memory of the client's own.
	Versions *VersionMemory
	// Tap is where the client's connections can be looked at; nil is nowhere.
	// Of RDMA operations there are none to see: they are the server's.
	Tap *Tap
}

// Call is a call to be made and, afterwards, its results.
type Call = transport.RPC

// Result is memory for one DDP-eligible result of a Call.
type Result = transport.Result

// Client makes calls on one connection or, with DialConfig.Reconnect, on one
// after the other. Its methods may be called from any goroutine.
type Client struct {
	provider rdmacm.Provider
	address  string
	cfg      DialConfig
	dev      verbs.Device
	host     *transport.Host // with the memory of all connections
	ctx      context.Context // ends with the client
	cancel   context.CancelFunc
	ended    chan struct{} // closed when a client that reconnects is closed
	closing  sync.Once
	running  sync.WaitGroup // the goroutine that reconnects

	mu       sync.Mutex
	settings Settings
	cur      *session
	reconnecting
}

// session is one connection of a client.
type session struct {
	req  *transport.Requester
	info Info // what does not change
	// What the two sides told each other at connect.
	ownPrivate, peerPrivate []byte
	// greetings are the replies that came before the connection was of use.
	greetings uint64
}

// Dial connects to host:port. ctx bounds the connecting, not the connection.
func Dial(ctx context.Context, p rdmacm.Provider, address string, cfg DialConfig) (*Client, error) {
	c := &Client{provider: p, address: address, cfg: cfg, settings: DefaultSettings(), ended: make(chan struct{})}
	if cfg.Settings != nil {
		c.settings = *cfg.Settings
	}
	if c.cfg.Versions == nil {
		c.cfg.Versions = new(VersionMemory)
	}
	c.changed, c.connects = make(chan struct{}), 1
	var err error
	if c.cur, err = c.connect(ctx, c.settings, rand.Uint32()); err != nil {
		if c.host != nil {
			c.host.Close()
		}
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.mu.Lock()
	c.keep()
	c.mu.Unlock()
	if r, ok := c.dev.(verbs.Removable); ok {
		go c.follow(r.Removed())
	}
	return c, nil
}

// follow closes the client when its device is gone, as its memory is registered
// there.
func (c *Client) follow(removed <-chan struct{}) {
	select {
	case <-removed:
		_ = c.Close() // ErrBusy: buffers of Alloc are freed when they are released
	case <-c.ctx.Done():
	}
}

// connect makes a connection. The first makes the host.
func (c *Client) connect(ctx context.Context, s Settings, firstXID uint32) (*session, error) {
	id, err := c.provider.Resolve(ctx, c.address)
	if err != nil {
		return nil, fmt.Errorf("rpcrdma: dial %s: %w", c.address, err)
	}
	n, err := c.open(ctx, id, &s, firstXID)
	if err != nil {
		id.Close()
		return nil, fmt.Errorf("rpcrdma: dial %s: %w", c.address, err)
	}
	return n, nil
}

// useHost gives the host for a connection on dev.
func (c *Client) useHost(dev verbs.Device) (err error) {
	switch {
	case c.host == nil:
		c.dev = dev
		c.host, err = transport.NewHost(transport.HostConfig{
			Device: dev, Role: transport.RoleRequester, MemoryLimit: c.cfg.MemoryLimit, Logger: c.cfg.Logger,
		})
	case c.dev != dev:
		err = errOtherDevice
	}
	return err
}

func (c *Client) open(ctx context.Context, id rdmacm.ID, s *Settings, firstXID uint32) (*session, error) {
	if err := c.useHost(id.Device()); err != nil {
		return nil, err
	}
	s.InlineReceiveSize = tellable(s.Receives())
	// Without windows a peer has nothing to invalidate.
	accepts := s.RemoteInvalidationAccept && c.dev.Attr().MemWindowType2B
	told := privateData(s, accepts)
	req, err := transport.NewRequester(c.host, id, transport.RequesterConfig{
		Settings: s, ToldSend: told.SendSize, FirstXID: firstXID, Handler: c.cfg.Handler, Logger: c.cfg.Logger,
		Only1: c.cfg.Versions.only1(c.address, time.Now()), Tap: c.cfg.Tap,
	})
	if err != nil {
		return nil, err
	}
	began := time.Now()
	err = id.Connect(ctx, rdmacm.ConnParam{
		PrivateData:        told.Append(nil),
		ResponderResources: readsIn(c.dev),
		InitiatorDepth:     initiates(s, c.dev),
	})
	peer, said := wire.ParsePrivateData(id.Peer().PrivateData)
	if err == nil {
		err = req.Start(peer.ReceiveSize, peer.SendSize)
	}
	if err != nil {
		req.Abandon()
		return nil, err
	}
	if err = c.configure(ctx, req, s, peer, said); err != nil {
		return nil, err
	}
	n := &session{req: req, greetings: req.Stats().Replies, ownPrivate: told.Append(nil), peerPrivate: id.Peer().PrivateData, info: Info{
		Local: id.LocalAddr(), Peer: id.RemoteAddr(), Provider: c.provider.Name(),
		RemoteInvalidation:     accepts && peer.RemoteInvalidation,
		PeerRemoteInvalidation: peer.RemoteInvalidation,
		PeerReceiveSize:        peer.ReceiveSize,
		PeerSendSize:           peer.SendSize,
		Since:                  time.Now(), ConnectTime: time.Since(began),
	}}
	n.info.setDevice(c.dev)
	return n, nil
}

// Call makes a call and waits for its results; see transport.RPC for what goes
// in and comes out. It returns an *oncrpc.AcceptError or *oncrpc.DeniedError
// when the server answered so, a *conn.PeerError when its transport did,
// ctx.Err() when ctx ended first, an *Error when the connection ended and the
// client does not reconnect. Whatever it returns, the peer has no access to the
// call's memory any more.
func (c *Client) Call(ctx context.Context, call *Call) error {
	if c.cfg.Reconnect == nil {
		err := c.cur.req.Call(ctx, call)
		if connectionEnds(err) {
			c.remember(c.cur)
		}
		return err
	}
	return c.callThrough(ctx, call)
}

// Alloc gives a buffer of at least n bytes in which items and results travel
// without a copy, on this connection and those after it.
func (c *Client) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	return c.session().req.Alloc(ctx, n)
}

// session is the present connection, or the last.
func (c *Client) session() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cur
}

// SetSettings changes the settings from the next call on. Those that are fixed
// at connect keep their values until the client reconnects.
func (c *Client) SetSettings(s *Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = *s
	c.cur.req.SetSettings(s)
	if c.lost && !c.closed && c.serves() { // it did not when the connection was lost
		c.dial()
	}
}

// Info is what is in force now, or was on the connection that is lost.
func (c *Client) Info() Info {
	c.mu.Lock()
	cur, connects := c.cur, c.connects
	c.mu.Unlock()
	i, s := cur.info, cur.req.State()
	i.InlineSend, i.InlineReceive, i.PeerReceive = s.InlineSend, s.InlineReceive, s.PeerReceive
	i.CreditsGranted, i.LastActive, i.Connects = s.CreditsGranted, s.LastActive, connects
	i.RPCVersion, i.VersionAgreed = int(s.Version), s.Agreed
	i.Padding, i.Configuration, i.Backchannel = s.Padding, s.Configuration, s.Backchannel
	i.Characteristics = s.Characteristics
	return i
}

// PrivateData is what the two sides told each other at connect, not to be
// changed.
func (c *Client) PrivateData() (peer, own []byte) {
	s := c.session()
	return s.peerPrivate, s.ownPrivate
}

// Stats are the counters so far, of all connections.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.cur.req.Stats()
	s.Add(&c.gone)
	return s
}

// Sizes are the sizes of calls and replies so far.
func (c *Client) Sizes() Sizes {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.cur.req.Sizes()
	s.Add(&c.goneSizes)
	return s
}

// Drain waits for the calls in flight, and for those of the server that are
// being answered, then disconnects; calls made meanwhile
// fail. When ctx ends first, the connection is closed at once and ctx.Err()
// returned.
func (c *Client) Drain(ctx context.Context) error {
	if c.cfg.Reconnect != nil {
		if err := c.drainCalls(ctx); err != nil {
			c.end()
			return err
		}
	}
	err := c.session().req.Drain(ctx)
	c.end()
	return err
}

// Memory are the numbers of the client's registered memory.
func (c *Client) Memory() MemoryStats { return c.host.Memory() }

// Close ends the connection at once; calls in flight fail. It waits until
// everything is freed, but for buffers of Alloc that are not released: these
// are freed then, and Close says so with verbs.ErrBusy.
func (c *Client) Close() (err error) {
	c.end()
	c.closing.Do(func() { err = c.host.Close() })
	return err
}

// Done is closed when the connection has ended; when the client reconnects,
// once it is closed or drained.
func (c *Client) Done() <-chan struct{} {
	if c.cfg.Reconnect != nil {
		return c.ended
	}
	return c.cur.req.Done()
}

// Err is why the connection ended, an *Error; nil while it is up, after an
// orderly end, and for clients that reconnect.
func (c *Client) Err() error {
	if c.cfg.Reconnect != nil {
		return nil
	}
	return c.cur.req.Err()
}

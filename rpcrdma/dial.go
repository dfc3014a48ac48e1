package rpcrdma

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// DialConfig configures a client. The zero value is valid.
type DialConfig struct {
	// Settings are the initial settings. nil means DefaultSettings.
	Settings *Settings
	// Logger gets a line for each attempt to connect again that fails, and for each refused
	// message of the server. nil logs neither. It also gets errors of freeing memory. For
	// these nil means slog.Default.
	Logger *slog.Logger
	// MemoryLimit limits the client's registered memory, in bytes. 0 means 1 GiB.
	MemoryLimit int64
	// Reserve, if not nil, is memory of the process for the client's calls when there is no other
	// (verbs/offheap). Several clients can have one. It has nothing for the receives of another
	// connection, so Dial refuses it together with Reconnect.
	Reserve *Reserve
	// Reconnect, if not nil, makes the client connect again when a connection is lost. The
	// calls in flight are then repeated with the same XIDs. A server without a duplicate
	// request cache may then execute a call twice. If the first connection fails, Dial
	// fails without another attempt.
	Reconnect *Reconnect
	// Handler answers calls of the server (RFC 8167) while the settings allow them
	// (extensions.backchannel, credits.backchannel). nil means none. These calls and their
	// replies go inline. A client with Reconnect also connects again for them, because the
	// server cannot. It does so only when all calls of the lost connection have returned from
	// Handler, whose context has then ended. So Handler must heed that context, above all when
	// it makes calls with this client.
	Handler oncrpc.Handler
	// Versions remembers servers that failed with version 2. nil means a memory of the
	// client's own.
	Versions *VersionMemory
	// Tap lets an Observer watch the client's connections. nil means none. It does not see
	// the RDMA operations, because the server makes them.
	Tap *Tap
	// Moved, if not nil, is set whenever what Stats or Info return may have changed.
	Moved *fair.Mark
}

// Call is a call and, when it has returned, its results.
type Call = transport.RPC

// Result is memory for one DDP-eligible result of a Call.
type Result = transport.Result

// Client makes calls on one connection or, with DialConfig.Reconnect, on one connection
// after another. Its methods may be called from any goroutine.
type Client struct {
	provider rdmacm.Provider
	address  string
	cfg      DialConfig
	dev      verbs.Device
	host     *transport.Host // with the memory of all connections
	ctx      context.Context // ends with the client
	cancel   context.CancelFunc
	ended    chan struct{} // closed when a client with Reconnect is closed
	closing  sync.Once
	running  sync.WaitGroup // the goroutine that reconnects

	mu       sync.Mutex
	settings Settings
	cur      *session
	reconnecting
}

// session is one connection of a client.
type session struct {
	req          *transport.Requester
	info         Info // what does not change
	invalidation bool // both sides agreed on remote invalidation
	// The private data that the two sides exchanged at connect.
	ownPrivate, peerPrivate []byte
	// greetings counts the replies that came before the connection was used.
	greetings uint64
}

// errReserve means that calls of a client would keep the reserve while a new connection waits for other memory, perhaps
// for that of calls that wait for the reserve.
var errReserve = errors.New("rpcrdma: a client with Reserve cannot have Reconnect")

// Dial connects to host:port. ctx bounds the connect, not the connection.
func Dial(ctx context.Context, p rdmacm.Provider, address string, cfg DialConfig) (*Client, error) {
	if cfg.Reserve != nil && cfg.Reconnect != nil {
		return nil, errReserve
	}
	c := &Client{provider: p, address: address, cfg: cfg, settings: DefaultSettings(), ended: make(chan struct{})}
	if cfg.Settings != nil {
		c.settings = *cfg.Settings
	}
	c.cfg.Versions = cmp.Or(c.cfg.Versions, new(VersionMemory))
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

// follow closes the client when its device is removed, because its memory is registered
// there.
func (c *Client) follow(removed <-chan struct{}) {
	select {
	case <-removed:
		_ = c.Close() // ErrBusy: buffers of Alloc are freed when they are released
	case <-c.ctx.Done():
	}
}

// connect makes a connection. The first one creates the host.
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

// useHost makes the host for a connection on dev, or checks that it is the host's device.
func (c *Client) useHost(dev verbs.Device) (err error) {
	switch {
	case c.host == nil:
		c.dev = dev
		c.host, err = transport.NewHost(transport.HostConfig{
			Device: dev, Role: transport.RoleRequester, MemoryLimit: c.cfg.MemoryLimit, Reserve: c.cfg.Reserve, Logger: c.cfg.Logger,
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
	// Without windows there is nothing that a peer could invalidate.
	accepts := s.RemoteInvalidationAccept && c.dev.Attr().MemWindowType2B
	told := privateData(s, accepts)
	var req *transport.Requester
	var err error
	req, err = transport.NewRequester(c.host, id, transport.RequesterConfig{
		Settings: s, ToldSend: told.SendSize, FirstXID: firstXID, Handler: c.cfg.Handler, Logger: c.cfg.Logger,
		Only1: c.cfg.Versions.only1(c.address, time.Now()), Tap: c.cfg.Tap, Moved: c.cfg.Moved,
		Lost: func() { c.remember(req) },
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
		PeerRemoteInvalidation: peer.RemoteInvalidation,
		PeerReceiveSize:        peer.ReceiveSize,
		PeerSendSize:           peer.SendSize,
		Since:                  time.Now(), ConnectTime: time.Since(began),
	}}
	n.info.setDevice(c.dev)
	n.invalidation = accepts && peer.RemoteInvalidation
	return n, nil
}

// Call makes a call and waits for its results; see transport.RPC for its fields. It returns
// an *oncrpc.AcceptError or *oncrpc.DeniedError if the server answered so, a *PeerError if
// the server's transport did, ErrBadReply if the answer is malformed, ctx.Err() if ctx ended
// first, or an *Error if the connection ended and the client does not reconnect. ErrClosed,
// ErrDraining and the errors beside them mean that it was not sent. When it returns, the peer
// no longer has access to the call's memory. A server that still uses this memory after ctx
// has ended loses the connection: other calls on it fail, or are repeated.
func (c *Client) Call(ctx context.Context, call *Call) error {
	if c.cfg.Reconnect == nil {
		err := c.cur.req.Call(ctx, call)
		if connectionEnds(err) {
			c.remember(c.cur.req)
		}
		return err
	}
	return c.callThrough(ctx, call)
}

// Go makes a call and does not wait for its results. done gets what Call would have
// returned, perhaps before Go returns. more means that another outcome follows at once. The
// goroutine that polls the connection calls done, and another one polls if that takes long.
// So done may wait for anything except Close and Drain. Close and Drain with a context that
// has ended make the calls fail.
//
// Go returns false and does nothing if the call has to wait for memory, or if the client
// reconnects. Use Call then.
func (c *Client) Go(call *Call, done func(err error, more bool)) bool {
	return c.cfg.Reconnect == nil && c.cur.req.Go(call, done)
}

// Alloc returns a buffer of at least n bytes. Items and results in it are sent and received
// without a copy, on this connection and later ones. It may wait until other buffers are
// released. It fails when ctx ends, with ErrClosed when the client is closed, or with
// ErrTooLarge.
func (c *Client) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	req := c.session().req
	b, err := req.Alloc(oncrpc.NoWait, n)
	if errors.Is(err, context.Canceled) { // it has to wait
		both, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		b, err = req.Alloc(both, n)
	}
	if err != nil && c.ctx.Err() != nil && ctx.Err() == nil {
		return nil, ErrClosed
	}
	return b, err
}

// GiveWay waits, before a call has any memory, until the client's calls have left the Reserve, if other clients want
// it. It waits until ctx ends, and at most for the time given.
func (c *Client) GiveWay(ctx context.Context, most time.Duration) {
	if r := c.cfg.Reserve; r != nil && r.Wanted() {
		c.session().req.GiveWay(ctx, most)
	}
}

// session returns the current connection, or the last one.
func (c *Client) session() *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cur
}

// SetSettings changes the settings. They apply from the next call on. Settings that are
// fixed at connect keep their values until the client reconnects.
func (c *Client) SetSettings(s *Settings) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = *s
	c.cur.req.SetSettings(s)
	if c.lost && !c.closed && c.serves() { // the old settings did not ask for it when the connection was lost
		c.dial()
	}
}

// Info returns the state of the current connection, or of the lost one.
func (c *Client) Info() Info {
	c.mu.Lock()
	cur, connects := c.cur, c.connects
	c.mu.Unlock()
	i := cur.info
	i.State, i.Connects = cur.req.State(), connects
	i.RemoteInvalidation = cur.invalidation
	return i
}

// PrivateData returns the private data that the two sides exchanged at connect. Do not
// change it.
func (c *Client) PrivateData() (peer, own []byte) {
	s := c.session()
	return s.peerPrivate, s.ownPrivate
}

// Stats returns the counters of all connections so far.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.cur.req.Stats()
	s.Add(&c.gone)
	return s
}

// Sizes returns the sizes of calls and replies so far.
func (c *Client) Sizes() Sizes {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.cur.req.Sizes()
	s.Add(&c.goneSizes)
	return s
}

// Drain waits for the calls in flight, and for the server's calls that are being answered,
// then disconnects. New calls fail. If ctx ends first, Drain closes the connection at once
// and returns ctx.Err(). Only Close frees the client's memory.
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

// Memory returns the statistics of the client's registered memory.
func (c *Client) Memory() MemoryStats { return c.host.Memory() }

// Close ends the connection at once. Calls in flight fail. It waits until everything is
// freed, except buffers of Alloc that are not released yet. These are freed on release, and
// Close returns verbs.ErrBusy.
func (c *Client) Close() (err error) {
	c.end()
	c.closing.Do(func() { err = c.host.Close() })
	return err
}

// Done is closed when the connection has ended. For a client with Reconnect, it is closed
// once the client is closed or drained.
func (c *Client) Done() <-chan struct{} {
	if c.cfg.Reconnect != nil {
		return c.ended
	}
	return c.cur.req.Done()
}

// Err returns why the connection ended, as an *Error. It is nil while the connection is up,
// after an orderly end, and for clients with Reconnect.
func (c *Client) Err() error {
	if c.cfg.Reconnect != nil {
		return nil
	}
	return c.cur.req.Err()
}

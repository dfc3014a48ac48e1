package rpcrdma

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
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
}

// Call is a call to be made and, afterwards, its results.
type Call = transport.RPC

// Result is memory for one DDP-eligible result of a Call.
type Result = transport.Result

// Client makes calls on one connection. Its methods may be called from any
// goroutine.
type Client struct {
	host *transport.Host
	req  *transport.Requester
	info Info // what does not change
}

// Dial connects to host:port. ctx bounds the connecting, not the connection.
func Dial(ctx context.Context, p rdmacm.Provider, address string, cfg DialConfig) (*Client, error) {
	id, err := p.Resolve(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("rpcrdma: dial %s: %w", address, err)
	}
	c, err := dial(ctx, p, id, cfg)
	if err != nil {
		id.Close()
		return nil, fmt.Errorf("rpcrdma: dial %s: %w", address, err)
	}
	return c, nil
}

func dial(ctx context.Context, p rdmacm.Provider, id rdmacm.ID, cfg DialConfig) (*Client, error) {
	s := DefaultSettings()
	if cfg.Settings != nil {
		s = *cfg.Settings
	}
	s.InlineReceiveSize = tellable(s.InlineReceiveSize)
	host, err := transport.NewHost(transport.HostConfig{
		Device: id.Device(), Role: transport.RoleRequester, MemoryLimit: cfg.MemoryLimit, Logger: cfg.Logger,
	})
	if err != nil {
		return nil, err
	}
	// Without windows a peer has nothing to invalidate.
	accepts := s.RemoteInvalidationAccept && id.Device().Attr().MemWindowType2B
	told := privateData(&s, accepts)
	req, err := transport.NewRequester(host, id, &s, told.SendSize)
	if err != nil {
		host.Close()
		return nil, err
	}
	began := time.Now()
	err = id.Connect(ctx, rdmacm.ConnParam{
		PrivateData:        told.Append(nil),
		ResponderResources: readsIn(id.Device()),
	})
	peer, _ := wire.ParsePrivateData(id.Peer().PrivateData)
	if err == nil {
		err = req.Start(peer.ReceiveSize, peer.SendSize)
	}
	if err != nil {
		req.Abandon()
		host.Close()
		return nil, err
	}
	return &Client{host: host, req: req, info: Info{
		Local: id.LocalAddr(), Peer: id.RemoteAddr(), Provider: p.Name(), RPCVersion: 1,
		RemoteInvalidation:     accepts && peer.RemoteInvalidation,
		PeerRemoteInvalidation: peer.RemoteInvalidation,
		PeerReceiveSize:        peer.ReceiveSize,
		Since:                  time.Now(), ConnectTime: time.Since(began),
	}}, nil
}

// Call makes a call and waits for its results; see transport.RPC for what goes
// in and comes out. It returns an *oncrpc.AcceptError or *oncrpc.DeniedError
// when the server answered so, a *conn.PeerError when its transport did,
// ctx.Err() when ctx ended first, an *Error when the connection ended. Whatever
// it returns, the peer has no access to the call's memory any more.
func (c *Client) Call(ctx context.Context, call *Call) error { return c.req.Call(ctx, call) }

// Alloc gives a buffer of at least n bytes in which items and results travel
// without a copy.
func (c *Client) Alloc(ctx context.Context, n int) (oncrpc.Buffer, error) {
	return c.req.Alloc(ctx, n)
}

// SetSettings changes the settings from the next call on. Those that are fixed
// at connect keep their values.
func (c *Client) SetSettings(s *Settings) { c.req.SetSettings(s) }

// Info is what is in force now.
func (c *Client) Info() Info {
	i, s := c.info, c.req.State()
	i.InlineSend, i.InlineReceive, i.PeerReceive = s.InlineSend, s.InlineReceive, s.PeerReceive
	i.CreditsGranted, i.LastActive = s.CreditsGranted, s.LastActive
	return i
}

// Stats are the counters so far.
func (c *Client) Stats() Stats { return c.req.Stats() }

// Sizes are the sizes of calls and replies so far.
func (c *Client) Sizes() Sizes { return c.req.Sizes() }

// Drain waits for the calls in flight, then disconnects; calls made meanwhile
// fail. When ctx ends first, the connection is closed at once and ctx.Err()
// returned.
func (c *Client) Drain(ctx context.Context) error { return c.req.Drain(ctx) }

// Close ends the connection at once; calls in flight fail. It waits until
// everything is freed, but for buffers of Alloc that are not released: these
// are freed then, and Close says so with verbs.ErrBusy.
func (c *Client) Close() error {
	c.req.Close()
	return c.host.Close()
}

// Done is closed when the connection has ended.
func (c *Client) Done() <-chan struct{} { return c.req.Done() }

// Err is why the connection ended, an *Error; nil while it is up and after an
// orderly end.
func (c *Client) Err() error { return c.req.Err() }

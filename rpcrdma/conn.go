package rpcrdma

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Request is a connection request that waits for an answer.
type Request struct {
	listener *Listener
	id       rdmacm.ID
	tell     uint32 // 0 is as the settings say
}

// ConnConfig is what a connection is accepted with.
type ConnConfig struct {
	// Handler serves the calls; required.
	Handler oncrpc.Handler
	// Up is told of the connection that Accept is about to return, before any
	// call is served: it is where to put it into a list, so that every call
	// belongs to a listed connection. It may use the connection, but must not
	// wait for its end or for calls. When it was called, Accept doesn't fail.
	// Nil is nobody.
	Up func(*Conn)
	// Down is told why the connection ended, as soon as that is known: before its
	// calls have returned. The error is that of Err. It must not wait for the
	// connection. Nil is nobody.
	Down func(error)
	// Gone is called when the connection has ended and everything is freed, after
	// Done is closed. It may block.
	Gone func()
	// Settings at the start; nil is DefaultSettings.
	Settings *Settings
	// Queued is told how long each call waited before its service started:
	// after it arrived, and for memory to fetch its read chunks into. It is
	// called from the goroutine that runs the service; nil is nobody.
	Queued func(time.Duration)
	// Logger gets a line with the peer and the reason for each message of the peer
	// that is refused or dropped. The handler of dataplane/loglimit bounds such
	// lines. Nil logs nothing. Err has the reason of the connection's end.
	Logger *slog.Logger
	// Tap is where the connection can be looked at from its first message on;
	// nil is nowhere.
	Tap *Tap
}

// LocalAddr is the address that the peer asked to connect to.
func (r *Request) LocalAddr() netip.AddrPort { return r.id.LocalAddr() }

// PrivateData is what the peer sent with its request, not to be changed, and
// what Accept with these settings answers.
func (r *Request) PrivateData(s *Settings) (peer, own []byte) {
	return r.id.Peer().PrivateData, r.told(s).Append(nil)
}

// PeerReceive is the most bytes of one Send that the peer says it takes.
func (r *Request) PeerReceive() uint32 {
	peer, _ := wire.ParsePrivateData(r.id.Peer().PrivateData)
	return peer.ReceiveSize
}

// LimitSend has the peer told that we send n bytes in one message at most, even
// where the settings have more. In version 1 that
// holds for the connection's life, in version 2 until the peer says by itself what
// it takes. 0 is no limit.
func (r *Request) LimitSend(n uint32) { r.tell = n }

// told is what the peer is told.
func (r *Request) told(s *Settings) wire.PrivateData {
	p := privateData(s, s.RemoteInvalidationAccept)
	if r.tell != 0 {
		p.SendSize = min(p.SendSize, tellable(r.tell))
	}
	return p
}

// RemoteAddr is the address of the peer.
func (r *Request) RemoteAddr() netip.AddrPort { return r.id.RemoteAddr() }

// Reject says no.
func (r *Request) Reject(ctx context.Context) error {
	err := r.id.Reject(ctx, nil)
	r.id.Close()
	return err
}

// Accept makes the connection and serves calls on it. When it fails, the
// request is over.
func (r *Request) Accept(ctx context.Context, cfg ConnConfig) (*Conn, error) {
	c, err := r.accept(ctx, cfg)
	if err != nil {
		r.id.Close()
		return nil, fmt.Errorf("rpcrdma: accept %v: %w", r.RemoteAddr(), err)
	}
	return c, nil
}

func (r *Request) accept(ctx context.Context, cfg ConnConfig) (*Conn, error) {
	s := DefaultSettings()
	if cfg.Settings != nil {
		s = *cfg.Settings
	}
	s.InlineReceiveSize = tellable(s.Receives())
	host, err := r.listener.host(r.id.Device())
	if err != nil {
		return nil, err
	}
	peer, said := wire.ParsePrivateData(r.id.Peer().PrivateData)
	told := r.told(&s)
	c := r.conn(peer)
	c.resp, err = transport.NewResponder(host.Host, r.id, transport.ResponderConfig{
		Handler: cfg.Handler, Settings: &s,
		PeerReceive:     peer.ReceiveSize,
		PeerSend:        peer.SendSize,
		PeerSaid:        said,
		FirstXID:        rand.Uint32(),
		Reads:           uint32(readsIn(r.id.Device())),
		ToldSend:        told.SendSize,
		PeerInvalidates: peer.RemoteInvalidation && s.RemoteInvalidationAccept,
		Queued:          cfg.Queued,
		Logger:          cfg.Logger,
		Tap:             cfg.Tap,
		Down:            cfg.Down,
		Gone: func() {
			r.listener.leave(host)
			c.gone(cfg.Gone)
		},
	})
	if err != nil {
		r.listener.leave(host)
		return nil, err
	}
	if err = r.id.Accept(ctx, r.param(told)); err == nil {
		c.info.ConnectTime, c.info.Since = time.Since(c.info.Since), time.Now()
		err = c.resp.Start(func() {
			if cfg.Up != nil {
				cfg.Up(c)
			}
		})
	}
	if err != nil {
		c.resp.Abandon()
		r.listener.leave(host)
		return nil, err
	}
	return c, nil
}

// conn is the connection before it begins.
func (r *Request) conn(peer wire.PrivateData) *Conn {
	c := &Conn{done: make(chan struct{}), info: Info{
		Local: r.id.LocalAddr(), Peer: r.id.RemoteAddr(),
		Provider: r.listener.provider.Name(), Connects: 1, Since: time.Now(),
		PeerReceiveSize:        peer.ReceiveSize,
		PeerSendSize:           peer.SendSize,
		PeerRemoteInvalidation: peer.RemoteInvalidation && r.id.Device().Attr().SendInvalidate,
	}}
	c.info.setDevice(r.id.Device())
	return c
}

// param is what the peer is told. It may have us read as much as it offers.
func (r *Request) param(told wire.PrivateData) rdmacm.ConnParam {
	return rdmacm.ConnParam{
		PrivateData:        told.Append(nil),
		ResponderResources: readsIn(r.id.Device()),
		InitiatorDepth:     readsOut(r.id.Device()),
	}
}

// Conn is a connection that serves calls, and makes calls to its client.
type Conn struct {
	resp *transport.Responder
	info Info // what does not change
	done chan struct{}
	ends ends
}

// gone is the end.
func (c *Conn) gone(tell func()) {
	close(c.done)
	c.ends.run()
	if tell != nil {
		tell()
	}
}

// SetSettings changes the settings at once, between two messages. Those that
// are fixed at connect keep their values.
func (c *Conn) SetSettings(s *Settings) { c.resp.SetSettings(s) }

// Aim says how many credits the policy adaptive is to grant from the next reply
// on, within the bounds of the settings; 0, at the start, leaves it to the
// connection's own load.
func (c *Conn) Aim(n int) { c.resp.Aim(n) }

// Load tells the load, and begins to look for the next peak.
func (c *Conn) Load() Load { return c.resp.Load() }

// Info is what is in force now.
func (c *Conn) Info() Info {
	i, s := c.info, c.resp.State()
	i.InlineSend, i.InlineReceive, i.PeerReceive = s.InlineSend, s.InlineReceive, s.PeerReceive
	i.CreditsGranted, i.RemoteInvalidation = s.CreditsGranted, s.RemoteInvalidation
	i.LastActive, i.RPCVersion, i.VersionAgreed = s.LastActive, int(s.Version), s.Agreed
	i.Padding, i.Configuration, i.Backchannel = s.Padding, s.Configuration, s.Backchannel
	i.Characteristics = s.Characteristics
	return i
}

// Stats are the counters so far.
func (c *Conn) Stats() Stats { return c.resp.Stats() }

// Sizes are the sizes of calls and replies so far.
func (c *Conn) Sizes() Sizes { return c.resp.Sizes() }

// Drain finishes the calls in progress, those to the client as well, then
// disconnects. Calls that arrive meanwhile are dropped, for the peer to make
// again on its next connection.
// When ctx ends first, the connection is closed at once and ctx.Err() returned.
func (c *Conn) Drain(ctx context.Context) error {
	err := c.resp.Drain(ctx)
	<-c.done
	return err
}

// Close ends the connection at once and waits until its calls have returned
// and everything is freed. Handlers see their context end.
func (c *Conn) Close() error {
	err := c.resp.Close()
	<-c.done
	return err
}

// Done is closed when the connection has ended and everything is freed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err is why the connection ended, an *Error; nil while it is up and after an
// orderly end.
func (c *Conn) Err() error { return c.resp.Err() }

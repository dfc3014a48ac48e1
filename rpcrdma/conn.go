package rpcrdma

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/fair"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Request is a connection request that has not been answered.
type Request struct {
	listener *Listener
	id       rdmacm.ID
	tell     uint32 // 0 means as the settings say
}

// ConnConfig configures an accepted connection.
type ConnConfig struct {
	// Handler serves the calls. It is required.
	Handler oncrpc.Handler
	// Up, if not nil, is called with the connection that Accept is about to return, before
	// any call is served. Use it to put the connection into a list, so that every call
	// belongs to a listed connection. It may use the connection, but must not wait for its
	// end or for calls. After this call Accept does not fail.
	Up func(*Conn)
	// Down, if not nil, is called with the error that Err returns as soon as the
	// connection's end is known, before its calls have returned. It must not wait for the
	// connection.
	Down func(error)
	// Gone, if not nil, is called when the connection has ended and everything is freed,
	// after Done is closed. It may block.
	Gone func()
	// Settings are the initial settings. nil means DefaultSettings.
	Settings *Settings
	// Queued, if not nil, is called with the time that each call waited before its service
	// started: after it arrived, and for memory for its read chunks. The goroutine of the
	// service calls it.
	Queued func(time.Duration)
	// Early means that Handler takes calls whose items have not arrived yet. It must then
	// heed oncrpc.Call.Arrival.
	Early bool
	// Later means that Handler answers its calls later (oncrpc.Call.Later) and does not wait.
	// Then the goroutine that polls the connection serves them, whatever else is in progress.
	// When the context of its calls ends, Handler must answer those that it has not answered.
	Later bool
	// Slow finds the calls that take long, and where their time goes.
	Slow SlowCalls
	// Logger gets a line with the peer and the reason for each message of the peer that is
	// refused or dropped. The handler of dataplane/loglimit limits such lines. nil logs
	// nothing. Err returns why the connection ended.
	Logger *slog.Logger
	// Tap lets an Observer watch the connection from its first message on. nil means none.
	Tap *Tap
	// Moved, if not nil, is set whenever what Stats or Info return may have changed.
	Moved *fair.Mark
}

// LocalAddr returns the address to which the peer asked to connect.
func (r *Request) LocalAddr() netip.AddrPort { return r.id.LocalAddr() }

// PrivateData returns what the peer sent with its request, and what Accept with these
// settings answers. Do not change it.
func (r *Request) PrivateData(s *Settings) (peer, own []byte) {
	return r.id.Peer().PrivateData, r.told(s).Append(nil)
}

// PeerReceive returns the largest Send that the peer announces to take, in bytes.
func (r *Request) PeerReceive() uint32 {
	peer, _ := wire.ParsePrivateData(r.id.Peer().PrivateData)
	return peer.ReceiveSize
}

// LimitSend announces to the peer that we send at most n bytes in one message, even if the
// settings allow more. In version 1 this holds for the connection's life, in version 2
// until the peer announces what it takes. 0 means no limit.
func (r *Request) LimitSend(n uint32) { r.tell = n }

// told returns what we announce to the peer.
func (r *Request) told(s *Settings) wire.PrivateData {
	p := privateData(s, s.RemoteInvalidationAccept)
	if r.tell != 0 {
		p.SendSize = min(p.SendSize, tellable(r.tell))
	}
	return p
}

// RemoteAddr returns the address of the peer.
func (r *Request) RemoteAddr() netip.AddrPort { return r.id.RemoteAddr() }

// Reject rejects the request.
func (r *Request) Reject(ctx context.Context) error { return r.RejectBecause(ctx, "") }

// maxReason is the private data that each transport's rejection carries; InfiniBand's is the
// shortest.
const maxReason = 148

// RejectBecause rejects the request, and tells the peer the reason in the private data of the
// rejection, cut after 148 bytes. Kernel clients ignore it.
// [rdmacm.RejectedError.Reason] returns it at the peer.
func (r *Request) RejectBecause(ctx context.Context, reason string) error {
	err := r.id.Reject(ctx, []byte(reason)[:min(len(reason), maxReason)])
	r.id.Close()
	return err
}

// Accept makes the connection and serves calls on it. If it fails, the request has ended. ctx
// bounds the connect, not the connection. A provider may wait for the peer, so a server
// accepts each request in its own goroutine.
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
		Early:           cfg.Early,
		Later:           cfg.Later,
		Slow:            cfg.Slow,
		Logger:          cfg.Logger,
		Tap:             cfg.Tap,
		Moved:           cfg.Moved,
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

// conn returns the connection before it starts.
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

// param returns what we announce to the peer. We make as many RDMA Reads as the peer
// offers.
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

// gone runs when the connection has ended.
func (c *Conn) gone(tell func()) {
	close(c.done)
	c.ends.run()
	if tell != nil {
		tell()
	}
}

// SetSettings changes the settings at once, between two messages. Settings that are fixed
// at connect keep their values.
func (c *Conn) SetSettings(s *Settings) { c.resp.SetSettings(s) }

// Aim sets how many credits the adaptive policy grants from the next reply on, within the
// bounds of the settings. With 0, the initial value, the connection's own load decides.
func (c *Conn) Aim(n int) { c.resp.Aim(n) }

// Load returns the load, and starts measuring the next peak.
func (c *Conn) Load() Load { return c.resp.Load() }

// Info returns the connection's current state.
func (c *Conn) Info() Info {
	i := c.info
	i.State = c.resp.State()
	return i
}

// Stats returns the counters so far.
func (c *Conn) Stats() Stats { return c.resp.Stats() }

// Sizes returns the sizes of calls and replies so far.
func (c *Conn) Sizes() Sizes { return c.resp.Sizes() }

// Drain finishes the calls in progress, including those to the client, then disconnects. It
// drops calls that arrive meanwhile. The peer makes them again on its next connection. If
// ctx ends first, Drain closes the connection at once and returns ctx.Err().
func (c *Conn) Drain(ctx context.Context) error {
	err := c.resp.Drain(ctx)
	<-c.done
	return err
}

// Finish disconnects once the replies so far are sent, and the client has read those that it is to
// read. It does not wait. Calls in progress get no reply, and the contexts of their handlers end with
// the connection.
func (c *Conn) Finish() { c.resp.Finish() }

// Close ends the connection at once and waits until its calls have returned and everything
// is freed. The contexts of handlers end.
func (c *Conn) Close() error {
	err := c.resp.Close()
	<-c.done
	return err
}

// Done is closed when the connection has ended and everything is freed.
func (c *Conn) Done() <-chan struct{} { return c.done }

// Err returns why the connection ended, as an *Error. It is nil while the connection is up
// and after an orderly end.
func (c *Conn) Err() error { return c.resp.Err() }

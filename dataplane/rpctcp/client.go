package rpctcp

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// ErrClosed is the error of calls on a closed client.
var ErrClosed = errors.New("rpctcp: client is closed")

// ClientConfig configures a Client. Zero values mean the defaults of Config.
type ClientConfig struct {
	// Cred is the credential of all calls. Zero means AUTH_NONE.
	Cred oncrpc.Auth
	// MaxCalls limits the calls in flight. Further calls wait.
	MaxCalls int
	// MaxRecord is the largest reply, in bytes.
	MaxRecord int
	// RecordTimeout ends the connection when a reply that has begun stalls. WriteTimeout
	// ends it when the server stops reading a call.
	RecordTimeout, WriteTimeout time.Duration
}

// Client makes calls on one TCP connection, several at once. All methods may be called from
// any goroutine. It does not reconnect: after an error of the connection every call fails
// with it.
type Client struct {
	cfg     ClientConfig
	nc      net.Conn
	in      *bufio.Reader
	records *oncrpc.RecordReader
	out     *Sender
	slots   chan *clientCall // calls that are not in flight
	done    chan struct{}    // closed when the reader has ended

	mu      sync.Mutex
	xid     uint32
	pending map[uint32]*clientCall // by XID, without a reply yet
	err     error
}

// Dial connects to address. ctx limits only the connect.
func Dial(ctx context.Context, address string, cfg ClientConfig) (*Client, error) {
	var d net.Dialer
	nc, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("rpctcp: %w", err)
	}
	return NewClient(nc, cfg), nil
}

// NewClient makes a client on nc, which it then owns.
func NewClient(nc net.Conn, cfg ClientConfig) *Client {
	cfg.MaxCalls = cmp.Or(cfg.MaxCalls, DefaultMaxCalls)
	cfg.MaxRecord = cmp.Or(cfg.MaxRecord, DefaultMaxRecord)
	cfg.RecordTimeout = cmp.Or(cfg.RecordTimeout, DefaultRecordTimeout)
	cfg.WriteTimeout = cmp.Or(cfg.WriteTimeout, DefaultWriteTimeout)
	c := &Client{
		cfg:     cfg,
		nc:      nc,
		in:      bufio.NewReaderSize(nc, readBuffer),
		slots:   make(chan *clientCall, cfg.MaxCalls),
		done:    make(chan struct{}),
		xid:     rand.Uint32(),
		pending: make(map[uint32]*clientCall),
	}
	c.records = oncrpc.NewRecordReader(c.in, cfg.MaxRecord)
	c.out = NewSender(nc, cfg.WriteTimeout, c.fail)
	for range cfg.MaxCalls {
		c.slots <- &clientCall{client: c, finished: make(chan struct{}, 1)}
	}
	go c.readReplies()
	return c
}

// Call makes one call and returns its results, as XDR. If the server does not answer with
// success, it fails with *oncrpc.AcceptError or *oncrpc.DeniedError.
//
// Do not touch args and into until Call returns. The whole reply is read into into, up to
// its capacity, and the results alias it. Make it oncrpc.AcceptedReplySize bytes larger
// than the results, or pass nil.
//
// When ctx ends, Call still waits until nothing reads args or writes into any more. The
// client's timeouts bound that wait.
func (c *Client) Call(ctx context.Context, program, version, procedure uint32, args, into []byte) ([]byte, error) {
	var cl *clientCall
	select {
	case cl = <-c.slots:
	case <-c.done:
		return nil, c.failure()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer cl.free()
	cl.args, cl.into = args, into
	if err := c.register(cl); err != nil {
		return nil, err
	}
	header := oncrpc.Call{XID: cl.xid, Program: program, Version: version, Procedure: procedure, Cred: c.cfg.Cred}
	cl.header = oncrpc.AppendCall(cl.header[:0], &header)
	c.out.Send(cl)
	select {
	case <-cl.finished:
	case <-ctx.Done():
		c.abandon(cl, context.Cause(ctx))
		<-cl.finished
	}
	return cl.results()
}

// register gives the call an XID and begins to wait for its reply.
func (c *Client) register(cl *clientCall) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	for c.xid++; c.pending[c.xid] != nil; c.xid++ { // still waiting after 2^32 calls
	}
	cl.xid = c.xid
	cl.sending, cl.awaiting = true, true
	c.pending[cl.xid] = cl
	return nil
}

// abandon stops waiting for a reply, unless it is arriving.
func (c *Client) abandon(cl *clientCall, err error) {
	c.mu.Lock()
	if c.pending[cl.xid] == cl {
		delete(c.pending, cl.xid)
		cl.answeredLocked(nil, err)
	}
	c.mu.Unlock()
}

// readReplies reads replies until the connection ends.
func (c *Client) readReplies() {
	defer close(c.done)
	for {
		if err := c.readReply(); err != nil {
			c.fail(fmt.Errorf("rpctcp: %w", err))
			return
		}
	}
}

// readReply reads one reply into the memory of its call. It waits for the first byte without
// a limit.
func (c *Client) readReply() error {
	if _, err := c.in.Peek(1); err != nil {
		return err
	}
	began, err := c.expect(oncrpc.RecordMarkSize + messageStart)
	if err != nil {
		return err
	}
	size, err := c.records.Next()
	if err != nil {
		return err
	}
	if size < messageStart {
		return oncrpc.ErrMalformed
	}
	start, err := c.in.Peek(messageStart)
	if err != nil {
		return oncrpc.Unexpected(err)
	}
	xid, mtype, ok := oncrpc.MessageType(start)
	if !ok || mtype != oncrpc.MsgReply {
		return oncrpc.ErrMalformed
	}
	if !c.records.Whole() {
		size = c.cfg.MaxRecord
	}
	rest, err := c.expect(size)
	if err != nil {
		return err
	}
	if err := c.deliver(xid, c.take(xid)); err != nil || !began && !rest {
		return err
	}
	return c.nc.SetReadDeadline(time.Time{})
}

// messageStart is the length of a message's XID and type, in bytes.
const messageStart = 8

// expect limits the time for the next n bytes, unless they have arrived. It reports whether it
// did.
func (c *Client) expect(n int) (timed bool, err error) {
	if n <= c.in.Buffered() {
		return false, nil
	}
	return true, c.nc.SetReadDeadline(time.Now().Add(c.cfg.RecordTimeout))
}

// take returns the call that waits for xid, or nil.
func (c *Client) take(xid uint32) *clientCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.pending[xid]
	delete(c.pending, xid)
	return cl
}

// deliver reads the reply that has begun and gives it to cl. If cl is nil, it drops the
// reply.
func (c *Client) deliver(xid uint32, cl *clientCall) error {
	if cl == nil {
		_, err := c.records.Read(nil)
		return err
	}
	msg, err := c.records.Read(cl.into[:0])
	if err != nil {
		err = fmt.Errorf("rpctcp: reply to %#x: %w", xid, err)
	}
	c.mu.Lock()
	cl.answeredLocked(msg, err)
	c.mu.Unlock()
	return err
}

// fail ends the connection and all calls on it.
func (c *Client) fail(err error) {
	defer c.nc.Close()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
	for xid, cl := range c.pending {
		delete(c.pending, xid)
		cl.answeredLocked(nil, c.err)
	}
}

func (c *Client) failure() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Close ends the connection. Calls in flight fail with ErrClosed.
func (c *Client) Close() error {
	c.fail(ErrClosed)
	<-c.done
	return nil
}

package oncrpc

import (
	"context"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Payload is an XDR stream from which opaque items may have been removed ("reduced", RFC
// 8166 §3.4): RDMA placed their bytes elsewhere. Over TCP, and for everything sent inline,
// Items is empty.
type Payload struct {
	// Stream is the XDR stream without the items' bytes and roundup padding. Their
	// length words are still in it.
	Stream []byte
	// Items are in increasing order of Pos.
	Items []Item
	// Padding precedes opaque data in the stream. Opaque skips it.
	Padding Padding
}

// Item is one opaque item that is not in its stream.
type Item struct {
	// Pos is the offset in Payload.Stream at which the item's bytes and
	// their roundup padding belong.
	Pos int
	// Data is the item without padding, or its first part.
	Data []byte
	// More are its other parts, in order: an item that came in several Sends is in several
	// receives. Otherwise More is empty.
	More [][]byte

	claimed bool // see Payload.Claimed
}

// Len returns the number of bytes of the item.
func (it *Item) Len() int {
	n := len(it.Data)
	for _, part := range it.More {
		n += len(part)
	}
	return n
}

// Call is a received call. All memory that it refers to is valid until the handler returns,
// or until it answers later.
type Call struct {
	XID, Program, Version, Procedure uint32
	Cred, Verf                       Auth
	// Args starts after the verifier.
	Args Payload
	// Peer is the caller's address.
	Peer netip.AddrPort
	// Turn is the call's turn among the calls of all connections. It is nil where there are
	// no turns. Only the goroutine in ServeRPC may use it.
	Turn Turn
	// Later lets the handler answer after it has returned. It is nil where the transport does
	// not support that.
	Later Later
	// Arrival, if not nil, is the arrival of the data of Args.Items. Before that, only the
	// lengths of items are known. Only handlers whose connection asks for it get such calls.
	Arrival Arrival
}

// Later answers a call after ServeRPC has returned ErrLater, or shortly before it does.
type Later interface {
	// Answer ends the call and sends the reply, as if ServeRPC had returned err. Exactly one
	// goroutine calls it, once, and uses the call and the reply no more. It does not wait for
	// the peer to take the reply. It may wait until the items of a call with an Arrival have
	// arrived.
	Answer(err error)
}

// Arrival is the arrival of the items of a call, in order. One goroutine at a time may use
// it.
type Arrival interface {
	// Wait waits until more than n bytes of all items together have arrived, or all of them,
	// and returns how many. It fails when ctx ends.
	Wait(ctx context.Context, n int) (int, error)
}

// Turn is a call's right to one of the processors' turns.
type Turn interface{ Waits() }

// Waits ends the turn, because the service is about to wait for something outside, such as
// another server. Other calls may run meanwhile. A service that waits for a disk need not
// call it.
func (c *Call) Waits() {
	if c.Turn != nil {
		c.Turn.Waits()
	}
}

// Auth is an opaque_auth (RFC 5531 §8.2).
type Auth struct {
	Flavor uint32
	Body   []byte // at most 400 bytes
}

// Handler serves calls. ServeRPC runs in its own goroutine, and concurrently for as many
// calls as the connection has granted credits. It appends the results to reply.Stream,
// which already holds the success header. An error is sent instead: *AcceptError with its
// accept_stat, *DeniedError with its reject status, any other error as SYSTEM_ERR. With
// ErrLater nothing is sent before Call.Later answers. ctx ends with the connection.
//
// ServeRPC must return or panic. If it ends its goroutine with runtime.Goexit, as
// testing.T.Fatal does, the call never ends, and Close of the connection waits for ever.
type Handler interface {
	ServeRPC(ctx context.Context, call *Call, reply *Reply) error
}

// Memory allocates buffers from which the call's transport can send without a copy:
// registered memory on RDMA, plain memory on TCP.
type Memory interface {
	// Alloc returns a buffer of at least n bytes, or an error if n exceeds the transport's
	// limit. It may wait until other buffers are released. The caller must release the
	// buffer, unless it gives it to a Reply.
	Alloc(ctx context.Context, n int) (Buffer, error)
}

// NoWait is a context that has ended: for Alloc it allows no waiting.
var NoWait = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// Buffer is memory from a Memory. It must not be used after Release.
type Buffer interface {
	// Bytes returns the whole buffer, page-aligned when it is a page or larger.
	Bytes() []byte
	Release()
}

// Reply is a reply being built.
type Reply struct {
	// Stream is the XDR stream: the reply header, and what the handler appends. A handler
	// that has a whole reply from another server puts it in place of the header: from
	// Stream[:0] on, with the call's XID.
	Stream []byte
	// Storage, when the handler sets it, is memory that Stream stands in and that
	// counts until the reply is released.
	Storage Buffer
	// Items are the DDP-eligible results that stand apart from Stream.
	Items []ReplyItem
	// Mem allocates buffers for items.
	Mem Memory
	// Sent, if the handler sets it, is called once the reply is on its way, unless the
	// connection ends before. Calls to the client made from then on do not overtake the
	// reply. Transports without such calls ignore it.
	Sent func()
	// Ahead, if not nil, may send data of items before the reply is complete. The transport
	// sets it.
	Ahead Ahead
	// Upstream is the time that the handler waited for another server. Serve resets it.
	Upstream time.Duration

	watches []watch
}

// Ahead sends data of a reply before the reply is complete.
type Ahead interface{ Filled(n int) }

// Filled reports to the transport that the first n bytes of the last item have their final
// value, while the handler still fills the rest. The transport may send them. The handler may
// still fail, but if it makes a reply, the reply must have the item as it is now.
func (r *Reply) Filled(n int) {
	if r.Ahead != nil {
		r.Ahead.Filled(n)
	}
}

// ReplyItem is a DDP-eligible result: the first Len bytes of Buf, which belong at Pos of
// Reply.Stream. Their roundup padding is implied.
type ReplyItem struct {
	Pos int
	Buf Buffer
	Len int
	// Asked is the operation of the call whose result this is: a span of the arguments' XDR
	// stream, items included. It is empty if the arguments are one operation.
	Asked xdr.Span
	// Absent stands for a result that the call asked for and the reply does not have,
	// before results that it has. Len is 0.
	Absent bool
}

// Holds reports whether n bytes fit into b, which a handler or a caller may have left nil.
func Holds(b Buffer, n int) bool { return b != nil && n >= 0 && n <= len(b.Bytes()) }

// Misplaced returns the index of the first of items that is out of order, beyond a stream of
// n bytes, or longer than its buffer or without one. It returns -1 if there is none.
func Misplaced(items []ReplyItem, n int) int {
	last := 0
	for i := range items {
		it := &items[i]
		if it.Pos < last || it.Pos > n || !Holds(it.Buf, it.Len) {
			return i
		}
		last = it.Pos
	}
	return -1
}

// AppendItem puts the first n bytes of buf at the current end of the stream. The reply then
// owns buf. The caller has appended the length word. The roundup padding is implied.
func (r *Reply) AppendItem(buf Buffer, n int) {
	r.Items = append(r.Items, ReplyItem{Pos: len(r.Stream), Buf: buf, Len: n})
}

// AppendResult is AppendItem for a result of the operation asked.
func (r *Reply) AppendResult(buf Buffer, n int, asked xdr.Span) {
	r.Items = append(r.Items, ReplyItem{Pos: len(r.Stream), Buf: buf, Len: n, Asked: asked})
}

// AppendAbsent records that a requested result is missing.
func (r *Reply) AppendAbsent() {
	r.Items = append(r.Items, ReplyItem{Pos: len(r.Stream), Buf: nothing{}, Absent: true})
}

// nothing is the memory of a missing result.
type nothing struct{}

func (nothing) Bytes() []byte { return nil }
func (nothing) Release()      {}

// Release gives all buffers back and forgets them, Sent, and a Stream that stands in Storage.
func (r *Reply) Release() {
	for i := range r.Items {
		if b := r.Items[i].Buf; b != nil { // a handler's mistake
			b.Release()
		}
		r.Items[i] = ReplyItem{}
	}
	r.Items = r.Items[:0]
	if r.Storage != nil {
		r.Storage.Release()
		r.Storage, r.Stream = nil, nil
	}
	r.Sent = nil
}

package oncrpc

import (
	"context"
	"net/netip"

	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Payload is an XDR stream from which opaque items may have been taken out
// ("reduced", RFC 8166 §3.4): their bytes stand apart, where RDMA placed
// them. Over TCP, and for everything sent inline, Items is empty.
type Payload struct {
	// Stream is the XDR stream without the items' bytes and without their
	// roundup padding; their length words are still in it.
	Stream []byte
	// Items are in increasing order of Pos.
	Items []Item
	// Padding is in the stream before opaque data; Opaque skips it.
	Padding Padding
}

// Item is one opaque item that stands apart from its stream.
type Item struct {
	// Pos is the offset in Payload.Stream at which the item's bytes and
	// their roundup padding belong.
	Pos int
	// Data is the item, without padding, or the first part of it.
	Data []byte
	// More are its other parts, in order: an item that came in several Sends
	// lies in as many receives. It is empty for all others.
	More [][]byte

	claimed bool // see Payload.Claimed
}

// Len is the number of bytes of the item.
func (it *Item) Len() int {
	n := len(it.Data)
	for _, part := range it.More {
		n += len(part)
	}
	return n
}

// Call is a received call. Everything that it refers to is valid until the
// handler returns.
type Call struct {
	XID, Program, Version, Procedure uint32
	Cred, Verf                       Auth
	// Args starts after the verifier.
	Args Payload
	// Peer is the caller's address.
	Peer netip.AddrPort
	// Turn is the call's turn among the calls of all connections; nil where there
	// are no turns.
	Turn Turn
}

// Turn is a call's right to occupy one of the processors' turns.
type Turn interface{ Waits() }

// Waits ends the turn, because the service is about to wait for something outside,
// such as another server. Other calls run meanwhile. A service that waits for a
// disk need not call it.
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

// Handler serves calls. ServeRPC runs in a goroutine of its own, several at
// once, as many as the connection has granted credits. It appends the results
// to reply.Stream; the success header is already there. An error answers in
// their place: *AcceptError with its accept_stat, *DeniedError with its reject
// status, anything else SYSTEM_ERR. ctx ends with the connection.
type Handler interface {
	ServeRPC(ctx context.Context, call *Call, reply *Reply) error
}

// Memory gives buffers that the transport under a call can send from without
// a copy: registered memory on RDMA, plain memory on TCP.
type Memory interface {
	// Alloc returns a buffer of at least n bytes, or an error when n is over
	// the transport's limit. It may wait for others to release theirs.
	Alloc(ctx context.Context, n int) (Buffer, error)
}

// Buffer is memory from a Memory. Release gives it back; using it later is a bug.
type Buffer interface {
	// Bytes is the whole buffer, page-aligned when it is a page or larger.
	Bytes() []byte
	Release()
}

// Reply is a reply being built.
type Reply struct {
	// Stream is the XDR stream: the reply header, and what the handler
	// appends. One that has a whole reply already, from another server, puts
	// it in the header's place: from Stream[:0] on, under the call's XID.
	Stream []byte
	// Items are the DDP-eligible results that stand apart from Stream.
	Items []ReplyItem
	// Mem gives buffers for items.
	Mem Memory
	// Sent, when the handler sets it, is called once the reply is on its way,
	// unless the connection ends before that. Calls to the client made from
	// then on don't overtake the reply. Transports that make none forget it.
	Sent func()
}

// ReplyItem is a DDP-eligible result: Len bytes from the start of Buf,
// belonging at Pos of Reply.Stream, with its roundup padding implied.
type ReplyItem struct {
	Pos int
	Buf Buffer
	Len int
	// Asked is the operation of the call that it is a result of: in the XDR
	// stream of the arguments, items included. It is empty when they are one
	// operation.
	Asked xdr.Span
	// Absent stands for a result that the call asked for and the reply does not
	// have, before others that it has. Len is 0.
	Absent bool
}

// AppendItem puts the first n bytes of buf, which the reply owns from now
// on, at the present end of the stream. The caller has appended the length
// word; the padding is implied.
func (r *Reply) AppendItem(buf Buffer, n int) {
	r.Items = append(r.Items, ReplyItem{Pos: len(r.Stream), Buf: buf, Len: n})
}

// AppendResult is AppendItem for a result of the operation asked.
func (r *Reply) AppendResult(buf Buffer, n int, asked xdr.Span) {
	r.Items = append(r.Items, ReplyItem{Pos: len(r.Stream), Buf: buf, Len: n, Asked: asked})
}

// AppendAbsent says that a result which the call asked for is not there.
func (r *Reply) AppendAbsent() {
	r.Items = append(r.Items, ReplyItem{Pos: len(r.Stream), Buf: nothing{}, Absent: true})
}

// nothing is the memory of a result that is not there.
type nothing struct{}

func (nothing) Bytes() []byte { return nil }
func (nothing) Release()      {}

// Release gives all items' buffers back and forgets them, and Sent.
func (r *Reply) Release() {
	for i := range r.Items {
		r.Items[i].Buf.Release()
		r.Items[i] = ReplyItem{}
	}
	r.Items = r.Items[:0]
	r.Sent = nil
}

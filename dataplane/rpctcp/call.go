package rpctcp

import (
	"net"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// keepStream is the usual size of a reply's stream, for which every call in
// flight is charged, and the largest whose storage is kept for the next call,
// in bytes.
const keepStream = 64 << 10

// zeros are roundup bytes.
var zeros [xdr.Unit]byte

// call is a call in flight on a connection. It is used again when its reply is
// sent.
type call struct {
	conn   *serverConn
	record *buffer // what msg stands in
	msg    []byte
	call   oncrpc.Call
	reply  oncrpc.Reply
	mark   [oncrpc.RecordMarkSize]byte

	// reserved is how many bytes are charged for the reply's stream; small says
	// whether they are the connection's small request.
	reserved int
	small    bool
}

// reserve waits until there is memory for a reply's stream of the usual size.
func (cl *call) reserve() (err error) {
	if cl.small, err = cl.conn.streams.take(cl.conn.ctx, keepStream); err == nil {
		cl.reserved = keepStream
	}
	return err
}

// chargeStream accounts for what the stream takes beyond the usual size.
func (cl *call) chargeStream() {
	if n := cap(cl.reply.Stream); n > cl.reserved {
		cl.conn.streams.share.Force(int64(n - cl.reserved))
		cl.reserved = n
	}
}

// discharge gives the stream's memory back.
func (cl *call) discharge() {
	cl.conn.streams.give(int64(cl.reserved), cl.small)
	cl.reserved, cl.small = 0, false
}

// serve has the call answered and sends the reply.
func (cl *call) serve() {
	c := cl.conn
	cl.reply.Mem = c.replies
	if oncrpc.Serve(c.ctx, c.server.cfg.Handler, &cl.call, &cl.reply) != nil && c.ctx.Err() == nil {
		c.server.stats.errors.Add(1)
	}
	cl.chargeStream()
	cl.send()
}

// send gives the call's memory back and sends the reply.
func (cl *call) send() {
	cl.forget()
	cl.conn.out.Send(cl)
}

// forget gives the call's memory back.
func (cl *call) forget() {
	if cl.record != nil {
		cl.record.Release()
	}
	cl.record, cl.msg, cl.call = nil, nil, oncrpc.Call{}
}

// drop ends a call that has no reply.
func (cl *call) drop() {
	cl.forget()
	cl.conn.slots <- cl
}

// size is the length of the reply, without its mark.
func (cl *call) size() int {
	n := len(cl.reply.Stream)
	for i := range cl.reply.Items {
		n += xdr.Padded(cl.reply.Items[i].Len)
	}
	return n
}

// AppendTo implements Outgoing: the items are written from where they are,
// between the pieces of the stream.
func (cl *call) AppendTo(vec net.Buffers) net.Buffers {
	oncrpc.AppendRecordMark(cl.mark[:0], cl.size(), true)
	vec = append(vec, cl.mark[:])
	at := 0
	for i := range cl.reply.Items {
		item := &cl.reply.Items[i]
		if item.Pos > at {
			vec = append(vec, cl.reply.Stream[at:item.Pos])
			at = item.Pos
		}
		if item.Len > 0 {
			vec = append(vec, item.Buf.Bytes()[:item.Len])
		}
		if pad := xdr.Pad(item.Len); pad > 0 {
			vec = append(vec, zeros[:pad])
		}
	}
	if at < len(cl.reply.Stream) {
		vec = append(vec, cl.reply.Stream[at:])
	}
	return vec
}

// Sent implements Outgoing.
func (cl *call) Sent(err error) {
	if err == nil {
		cl.conn.server.stats.bytesOut.Add(uint64(oncrpc.RecordMarkSize + cl.size()))
	} else {
		cl.conn.unanswered.Store(true)
	}
	cl.reply.Release()
	if cap(cl.reply.Stream) > keepStream {
		cl.reply.Stream = nil
	}
	cl.discharge()
	cl.conn.slots <- cl
}

package rpctcp

import (
	"net"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/slow"
)

// keepStream is the usual size of a reply's stream, in bytes. Every call in flight is
// charged for it. Larger storage is not kept for later calls.
const keepStream = 64 << 10

// call is a call in flight on a connection. It is reused once its reply is sent.
type call struct {
	conn   *serverConn
	record *buffer // contains msg
	msg    []byte
	call   oncrpc.Call
	reply  oncrpc.Reply
	mark   [oncrpc.RecordMarkSize]byte
	own    []byte // storage of a short reply
	long   bool   // the last reply did not fit it

	// reserved is how many bytes are charged for the reply's stream. small means that they
	// are the connection's small request.
	reserved int
	small    bool

	times *slow.Timeline // nil while slow calls are not measured
}

// reserve waits until there is memory for a reply's stream of the usual size.
func (cl *call) reserve() (err error) {
	if cl.small, err = cl.conn.streams.take(cl.conn.ctx, keepStream); err == nil {
		cl.reserved = keepStream
		if cl.reply.Stream = cl.own[:0]; cl.long { // short calls leave the server's list alone
			cl.reply.Stream = cl.conn.server.spares.Take(cl.own)
		}
	}
	return err
}

// release returns the memory of the reply. The call keeps storage for a short one.
func (cl *call) release() {
	stream := cl.reply.Stream
	if cl.reply.Storage != nil { // it contains the stream
		stream = nil
	}
	cl.reply.Release()
	cl.reply.Stream = nil
	cl.long = len(stream) > cap(cl.own)
	cl.own = cl.conn.server.spares.Keep(cl.own, stream)
	cl.discharge()
}

// chargeStream charges for what the stream takes beyond the usual size.
func (cl *call) chargeStream() {
	if n := cap(cl.reply.Stream); n > cl.reserved {
		cl.conn.streams.share.Force(int64(n - cl.reserved))
		cl.reserved = n
	}
}

// discharge returns the charge for the stream's memory.
func (cl *call) discharge() {
	cl.conn.streams.give(int64(cl.reserved), cl.small)
	cl.reserved, cl.small = 0, false
}

// run runs the handler and returns how long that took.
func (cl *call) run() time.Duration {
	c := cl.conn
	cl.reply.Mem = c.replies
	began := time.Now()
	if oncrpc.Serve(c.ctx, c.server.cfg.Handler, &cl.call, &cl.reply) != nil && c.ctx.Err() == nil {
		c.fail()
	}
	ended := time.Now()
	took := ended.Sub(began)
	c.spent.Add(int64(took))
	cl.times.Note(slow.Started, began)
	cl.times.Note(slow.Served, ended)
	cl.times.Upstream(cl.reply.Upstream)
	cl.chargeStream()
	return took
}

// Serve runs the handler and sends the reply. See Crew.
func (cl *call) Serve() {
	cl.run()
	cl.send()
}

// send frees the call's memory and sends the reply.
func (cl *call) send() {
	cl.forget()
	cl.conn.out.Send(cl)
}

// forget frees the call's memory.
func (cl *call) forget() {
	if cl.record != nil {
		cl.record.Release()
	}
	cl.record, cl.msg, cl.call = nil, nil, oncrpc.Call{}
}

// drop ends a call without a reply.
func (cl *call) drop() {
	cl.forget()
	cl.conn.giveBack(cl)
}

// size returns the length of the reply without its mark, in bytes.
func (cl *call) size() int { return Size(cl.reply.Stream, cl.reply.Items) }

// AppendTo implements Outgoing.
func (cl *call) AppendTo(vec net.Buffers) net.Buffers {
	cl.times.Pass(slow.Posted)
	return AppendReply(vec, &cl.mark, cl.reply.Stream, cl.reply.Items)
}

// Sent implements Outgoing.
func (cl *call) Sent(err error) {
	cl.conn.slow.EndNow(cl.times, err != nil)
	if err == nil {
		cl.conn.answered.Add(1)
		cl.conn.bytesOut.Add(uint64(oncrpc.RecordMarkSize + cl.size()))
	} else {
		cl.conn.unanswered.Store(true)
	}
	cl.release()
	cl.conn.ended()
	cl.conn.giveBack(cl)
}

package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
)

// Results that are written while the service still waits for the rest of them. The queue
// pair may use their memory from the first RDMA Write on, even if the service fails. So the
// call owns it from then on, and gives it to the op of the answer, whatever that is: it
// completes after the Writes.

// owned is memory of a result that the call owns.
type owned struct{ *regmem.Buffer }

// Release implements oncrpc.Buffer.
func (owned) Release() {}

var _ oncrpc.Ahead = (*call)(nil)

// Filled implements oncrpc.Ahead. Memory that is not the pool's is registered, or copied,
// when the reply is complete.
func (c *call) Filled(n int) {
	r, i := c.r, len(c.reply.Items)-1
	it := &c.reply.Items[i]
	if b := r.pooled(it.Buf); b == nil || n > it.Len {
		return
	}
	r.mu.Lock()
	defer r.mu.releaseAndPost()
	if r.dead {
		return
	}
	r.do(r.core.Filled(c.call, i, it.Len, n, r.acts))
}

// pooled returns the registered memory of a result, or nil if it has none.
func (r *Responder) pooled(b oncrpc.Buffer) *regmem.Buffer {
	if o, is := b.(owned); is {
		return o.Buffer
	}
	if b, is := b.(*regmem.Buffer); is && b.Of(r.host.pool) {
		return b
	}
	return nil
}

// write implements the Write action. It asks for no completion: that of the answer will do.
func (r *Responder) write(c *call) {
	it := &c.reply.Items[len(c.reply.Items)-1]
	b := r.pooled(it.Buf)
	if _, is := it.Buf.(owned); !is {
		it.Buf, c.ahead = owned{b}, append(c.ahead, b)
	}
	o := r.sq.newOp(opAhead, c.call.Index)
	o.detached = true
	for i := range c.call.Ahead {
		w := &c.call.Ahead[i]
		r.addWrite(o, w, b.SGE(w.Off, w.Length))
	}
	r.submit(o)
}

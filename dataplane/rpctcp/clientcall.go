package rpctcp

import (
	"net"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// clientCall is a call of a Client. It is reused when it has ended.
type clientCall struct {
	client   *Client
	header   []byte // the call's, its storage reused
	args     []byte
	into     []byte
	mark     [oncrpc.RecordMarkSize]byte
	finished chan struct{} // gets one value when neither sending nor awaiting

	// Under client.mu.
	xid               uint32
	sending, awaiting bool
	reply             []byte
	err               error
}

// AppendTo implements Outgoing.
func (cl *clientCall) AppendTo(vec net.Buffers) net.Buffers {
	oncrpc.AppendRecordMark(cl.mark[:0], len(cl.header)+len(cl.args), true)
	vec = append(vec, cl.mark[:], cl.header)
	if len(cl.args) > 0 {
		vec = append(vec, cl.args)
	}
	return vec
}

// Sent implements Outgoing.
func (cl *clientCall) Sent(error) { // an error has failed the client already
	c := cl.client
	c.mu.Lock()
	defer c.mu.Unlock()
	cl.sending = false
	cl.finishLocked()
}

// answeredLocked records that the call no longer waits for a reply.
func (cl *clientCall) answeredLocked(reply []byte, err error) {
	cl.reply, cl.err = reply, err
	cl.awaiting = false
	cl.finishLocked()
}

// finishLocked wakes the caller when the call's memory is no longer used.
func (cl *clientCall) finishLocked() {
	if !cl.sending && !cl.awaiting {
		cl.finished <- struct{}{}
	}
}

// results decodes the reply.
func (cl *clientCall) results() ([]byte, error) {
	if cl.err != nil {
		return nil, cl.err
	}
	var h oncrpc.ReplyHeader
	n, err := oncrpc.DecodeReply(cl.reply, &h)
	if err != nil {
		return nil, err
	}
	return cl.reply[n:], nil
}

// free makes the call available for reuse.
func (cl *clientCall) free() {
	cl.args, cl.into, cl.reply, cl.err = nil, nil, nil, nil
	cl.client.slots <- cl
}

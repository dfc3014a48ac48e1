package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// compose writes the call message with everything that is not in a chunk of its own, for
// several Sends one body after the other. It copies items, because a call that is given up
// returns before its Sends have completed. launch sets the XID.
func (p *pending) compose(c *RPC) {
	hdr := oncrpc.Call{Program: c.Program, Version: c.Version, Procedure: c.Procedure, Cred: c.Cred, Verf: c.Verf}
	p.head = oncrpc.AppendCall(p.head[:0], &hdr)
	dst := p.appendPieces(p.message.Bytes()[headRoom:headRoom], c, p.out.Inline)
	for i := range p.out.More {
		dst = p.appendPieces(dst, c, p.out.More[i].Inline)
	}
}

// appendPieces appends pieces of the call message.
func (p *pending) appendPieces(dst []byte, c *RPC, pieces []chunk.Piece) []byte {
	for _, piece := range pieces {
		switch piece.From {
		case chunk.Zeros: // pool memory is reused: the peer must not see old data
			n := len(dst)
			dst = dst[:n+piece.Len]
			clear(dst[n:])
		case chunk.Stream:
			dst = p.appendStream(dst, c.Args, piece.Off, piece.Len)
		default:
			it := &c.Items[piece.From]
			dst = append(dst, it.Buf.Bytes()[piece.Off:piece.Off+piece.Len]...)
			p.pullup += piece.Len
		}
	}
	return dst
}

// appendStream appends n bytes, from off, of the RPC header followed by the arguments.
func (p *pending) appendStream(dst, args []byte, off, n int) []byte {
	if off < len(p.head) {
		k := min(n, len(p.head)-off)
		dst = append(dst, p.head[off:off+k]...)
		off, n = off+k, n-k
	}
	off -= len(p.head)
	if n > 0 {
		dst = append(dst, args[off:off+n]...)
	}
	return dst
}

// take implements the Take action. It copies the reply that came inline, and the results
// that came in Sends to where the caller wants them.
func (p *pending) take() {
	p.reply = p.reply[:0]
	for _, part := range p.out.Parts {
		p.reply = append(p.reply, part...)
	}
	for _, run := range p.out.Placed {
		res := &p.rpc.Results[run.Result]
		n := copy(res.Buf.Bytes()[res.Apart:res.Max], run.Data)
		res.Apart += n
		p.fixup += n
	}
}

package rpctcp

import (
	"net"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// zeros are roundup bytes.
var zeros [xdr.Unit]byte

// Size returns the length of a reply whose items stand apart from its stream, in bytes.
func Size(stream []byte, items []oncrpc.ReplyItem) int {
	n := len(stream)
	for i := range items {
		n += xdr.Padded(items[i].Len)
	}
	return n
}

// AppendReply appends a reply as a record to vec: its mark, and the items, without a copy,
// between the pieces of the stream.
func AppendReply(vec net.Buffers, mark *[oncrpc.RecordMarkSize]byte, stream []byte, items []oncrpc.ReplyItem) net.Buffers {
	oncrpc.AppendRecordMark(mark[:0], Size(stream, items), true)
	vec = append(vec, mark[:])
	at := 0
	for i := range items {
		item := &items[i]
		vec = AppendPiece(vec, stream[at:item.Pos])
		vec = AppendPiece(vec, item.Buf.Bytes()[:item.Len])
		vec = AppendPiece(vec, zeros[:xdr.Pad(item.Len)])
		at = item.Pos
	}
	return AppendPiece(vec, stream[at:])
}

// AppendPiece appends a piece of a record to vec, unless it is empty.
func AppendPiece(vec net.Buffers, piece []byte) net.Buffers {
	if len(piece) == 0 {
		return vec
	}
	return append(vec, piece)
}

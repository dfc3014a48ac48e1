package trace

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// transmission decodes the body of a transmission of version 2 and sets Detail. b is what the
// event has of the size bytes after the header. payload is the start of the RPC message, or
// nil, and length that of the message in the Send, which may be more.
func (m *Message) transmission(b []byte, size int) (payload []byte, length int) {
	var (
		req  rpcrdma2.XmtReq
		resp rpcrdma2.XmtResp
		cont rpcrdma2.XmtCont
		bad  rpcrdma2.XmtError
		err  error
	)
	first := func(count, announced uint32, items int) {
		m.Detail = fmt.Sprintf("1 of %d", count)
		if items > 0 {
			m.Detail += fmt.Sprintf(", %d apart", items)
		}
		length = int(min(uint64(announced), uint64(size)))
		payload = b[:min(length, len(b))]
	}
	switch h := &m.Header; h.Option {
	case rpcrdma2.OptXmtReq:
		if err = req.Decode(h.Info); err == nil {
			first(req.Count, req.PayloadLength, len(req.Items))
			if req.ReceiveBuffers > 0 {
				m.Detail += fmt.Sprintf(", %d receives more", req.ReceiveBuffers)
			}
		}
	case rpcrdma2.OptXmtResp:
		if err = resp.Decode(h.Info); err == nil {
			first(resp.Count, resp.PayloadLength, len(resp.Items))
		}
	case rpcrdma2.OptXmtCont:
		if err = cont.Decode(h.Info); err == nil {
			m.Detail = fmt.Sprintf("%d, %d bytes of the message", uint64(cont.Number)+1, cont.PayloadLength)
		}
	case rpcrdma2.OptXmtError:
		if err = bad.Decode(h.Info); err == nil {
			m.Detail = faults[bad.Code]
		}
	}
	if err != nil {
		m.malformed(err)
	}
	return payload, length
}

// faults are the names of XMTERR's codes (optx_err).
var faults = map[rpcrdma2.XmtErrCode]string{
	rpcrdma2.BadHeaderType: "BADHMT", rpcrdma2.BadOptType: "BADOMT", rpcrdma2.BadContinuation: "BADCONT", rpcrdma2.BadSequence: "BADSEQ",
	rpcrdma2.BadXID: "BADXID", rpcrdma2.BadOffset: "BADOFF", rpcrdma2.BadTarget: "BADTBSN", rpcrdma2.BadPayload: "BADPL",
}

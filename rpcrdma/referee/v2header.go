package referee

import (
	"fmt"

	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/xdr2"
	"github.com/rdmad/rdmad/rpcrdma/internal/xdr2/xdrin"
)

const procOptional = uint32(xdr2.RDMA2_OPTIONAL)

// The optional operations of version 2 (wire reference §5.1, §5.2).
const (
	opInit    = xdr2.ROPT_INITXCH
	opRequest = xdr2.ROPT_REQXCH
	opRespond = xdr2.ROPT_RESPXCH
	opUpdate  = xdr2.ROPT_UPDXCH
	opXmtReq  = xdr2.ROPT_XMTREQ
	opXmtResp = xdr2.ROPT_XMTRESP
	opXmtCont = xdr2.ROPT_XMTCONT
	opXmtErr  = xdr2.ROPT_XMTERR
)

var opNames = [...]string{"no operation", "INIT", "REQUEST", "RESPOND", "UPDATE", "XMTREQ", "XMTRESP", "XMTCONT", "XMTERR"}

// header2 is the decoded header of a message of version 2.
type header2 struct {
	*message
	seq uint64 // number of the message on the connection
	// dir is REPLY for an ERROR, whose header has no direction field.
	dir xdr2.Msg_type
	op  uint32 // of OPTIONAL
	// body is the decoded operation: *Optinit_xch and so on. It is nil if no
	// specification describes the operation, and if it can't be decoded. In
	// that case bad is the error.
	body any
	bad  error
}

// decode2 decodes the header in b. It fills in m and returns the header.
func decode2(b []byte, m *message) (*header2, error) {
	var x xdr2.Rpcrdma2_xprt_hdr
	n, err := xdrin.Decode(b[:min(len(b), maxHeader)], &x)
	if err != nil {
		return nil, err
	}
	m.header, m.payload = n, b[n:]
	h := &header2{message: m}
	switch x.Rdma_body.Rdma_proc {
	case xdr2.RDMA2_MSG:
		h.lists(x.Rdma_body.Rdma_chunks())
	case xdr2.RDMA2_NOMSG:
		h.lists(x.Rdma_body.Rdma_nochunks())
	case xdr2.RDMA2_ERROR:
		e := x.Rdma_body.Rdma_error()
		h.dir, m.errCode = xdr2.REPLY, uint32(e.Rdma_err)
		if e.Rdma_err == xdr2.RDMA2_ERR_VERS {
			m.versLow, m.versTop = e.Rdma_vrange().Rdma_vers_low, e.Rdma_vrange().Rdma_vers_high
		}
	case xdr2.RDMA2_OPTIONAL:
		o := x.Rdma_body.Rdma_optional()
		h.dir, h.op = o.Rdma_optdir, o.Rdma_opttype
		h.body, h.bad = decodeBody(o.Rdma_opttype, o.Rdma_optinfo)
	}
	return h, nil
}

// lists takes over the direction and the chunk lists of MSG and NOMSG.
func (h *header2) lists(x *xdr2.Rpcrdma2_chunk_lists) {
	h.dir = x.Rdma_direction
	for l := x.Rdma_reads; l != nil; l = l.Rdma_next {
		h.reads = append(h.reads, readSegment{l.Rdma_entry.Rdma_position, segment2(l.Rdma_entry.Rdma_target)})
	}
	for l := x.Rdma_writes; l != nil; l = l.Rdma_next {
		h.writes = append(h.writes, segments2(l.Rdma_entry.Rdma_target))
	}
	if x.Rdma_reply != nil {
		h.hasReply, h.reply = true, segments2(x.Rdma_reply.Rdma_target)
	}
}

func segment2(s xdr2.Rpcrdma2_segment) segment {
	return segment{s.Rdma_handle, s.Rdma_length, s.Rdma_offset}
}

func segments2(list []xdr2.Rpcrdma2_segment) []segment {
	out := make([]segment, len(list))
	for i, s := range list {
		out[i] = segment2(s)
	}
	return out
}

// decodeBody decodes rdma_optinfo. Operations that no specification describes
// have no body.
func decodeBody(op uint32, info []byte) (any, error) {
	var v xdr.XdrType
	switch op {
	case opInit:
		v = new(xdr2.Optinit_xch)
	case opRequest:
		v = new(xdr2.Optreq_xch)
	case opRespond:
		v = new(xdr2.Optresp_xch)
	case opUpdate:
		v = new(xdr2.Optupd_xch)
	case opXmtReq:
		v = new(xdr2.Optxmt_req)
	case opXmtResp:
		v = new(xdr2.Optxmt_resp)
	case opXmtCont:
		v = new(xdr2.Optxmt_cont)
	case opXmtErr:
		v = new(xdr2.Optxmt_err)
	default:
		return nil, nil
	}
	if err := decodeAll(info, v); err != nil {
		return nil, err
	}
	return v, nil
}

// decodeAll decodes v from b. Bytes that are left over are an error.
func decodeAll(b []byte, v xdr.XdrType) error {
	n, err := xdrin.Decode(b, v)
	if err == nil && n != len(b) {
		err = fmt.Errorf("%d bytes are left over", len(b)-n)
	}
	return err
}

// name returns the name of the message in reports.
func (h *header2) name() string {
	switch {
	case h.proc != procOptional:
		return xdr2.Rpcrdma2_proc(h.proc).String()
	case h.op < uint32(len(opNames)):
		return opNames[h.op]
	}
	return fmt.Sprintf("operation %d", h.op)
}

// asksBare reports whether the answer to an operation is not an RPC reply.
func asksBare(op uint32) bool { return op == opInit || op == opRequest }

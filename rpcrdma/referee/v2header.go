package referee

import (
	"fmt"

	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/xdrin"
)

const procOptional = uint32(goxdr.RDMA2_OPTIONAL)

// The optional operations of version 2 (wire reference §5.1, §5.2).
const (
	opInit    = goxdr.ROPT_INITXCH
	opRequest = goxdr.ROPT_REQXCH
	opRespond = goxdr.ROPT_RESPXCH
	opUpdate  = goxdr.ROPT_UPDXCH
	opXmtReq  = goxdr.ROPT_XMTREQ
	opXmtResp = goxdr.ROPT_XMTRESP
	opXmtCont = goxdr.ROPT_XMTCONT
	opXmtErr  = goxdr.ROPT_XMTERR
)

// operations are the names of the operations and what their bodies decode into.
var operations = [...]struct {
	name string
	body func() xdr.XdrType
}{
	{name: "no operation"},
	opInit:    {"INIT", func() xdr.XdrType { return new(goxdr.Optinit_xch) }},
	opRequest: {"REQUEST", func() xdr.XdrType { return new(goxdr.Optreq_xch) }},
	opRespond: {"RESPOND", func() xdr.XdrType { return new(goxdr.Optresp_xch) }},
	opUpdate:  {"UPDATE", func() xdr.XdrType { return new(goxdr.Optupd_xch) }},
	opXmtReq:  {"XMTREQ", func() xdr.XdrType { return new(goxdr.Optxmt_req) }},
	opXmtResp: {"XMTRESP", func() xdr.XdrType { return new(goxdr.Optxmt_resp) }},
	opXmtCont: {"XMTCONT", func() xdr.XdrType { return new(goxdr.Optxmt_cont) }},
	opXmtErr:  {"XMTERR", func() xdr.XdrType { return new(goxdr.Optxmt_err) }},
}

// header2 is the decoded header of a message of version 2.
type header2 struct {
	*message
	seq uint64 // number of the message on the connection
	// dir is REPLY for an ERROR, whose header has no direction field.
	dir goxdr.Msg_type
	op  uint32 // of OPTIONAL
	// body is the decoded operation: *Optinit_xch and so on. It is nil if no
	// specification describes the operation, and if it can't be decoded. In
	// that case bad is the error.
	body any
	bad  error
}

// decode2 decodes the header in b. It fills in m and returns the header.
func decode2(b []byte, m *message) (*header2, error) {
	var x goxdr.Rpcrdma2_xprt_hdr
	n, err := xdrin.Decode(b[:min(len(b), maxHeader)], &x)
	if err != nil {
		return nil, err
	}
	m.header, m.payload = n, b[n:]
	h := &header2{message: m}
	switch x.Rdma_body.Rdma_proc {
	case goxdr.RDMA2_MSG:
		h.lists2(x.Rdma_body.Rdma_chunks())
	case goxdr.RDMA2_NOMSG:
		h.lists2(x.Rdma_body.Rdma_nochunks())
	case goxdr.RDMA2_ERROR:
		e := x.Rdma_body.Rdma_error()
		h.dir, m.errCode = goxdr.REPLY, uint32(e.Rdma_err)
		if e.Rdma_err == goxdr.RDMA2_ERR_VERS {
			m.versLow, m.versTop = e.Rdma_vrange().Rdma_vers_low, e.Rdma_vrange().Rdma_vers_high
		}
	case goxdr.RDMA2_OPTIONAL:
		o := x.Rdma_body.Rdma_optional()
		h.dir, h.op = o.Rdma_optdir, o.Rdma_opttype
		h.body, h.bad = decodeBody(o.Rdma_opttype, o.Rdma_optinfo)
	}
	return h, nil
}

// lists2 takes over the direction and the chunk lists of MSG and NOMSG.
func (h *header2) lists2(x *goxdr.Rpcrdma2_chunk_lists) {
	h.dir = x.Rdma_direction
	h.lists(x.Rdma_reads, x.Rdma_writes, x.Rdma_reply)
}

// decodeBody decodes rdma_optinfo. Operations that no specification describes
// have no body.
func decodeBody(op uint32, info []byte) (any, error) {
	if op >= uint32(len(operations)) || operations[op].body == nil {
		return nil, nil
	}
	v := operations[op].body()
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
		return goxdr.Rpcrdma2_proc(h.proc).String()
	case h.op < uint32(len(operations)):
		return operations[h.op].name
	}
	return fmt.Sprintf("operation %d", h.op)
}

// asksBare reports whether the answer to an operation is not an RPC reply.
func asksBare(op uint32) bool { return op == opInit || op == opRequest }

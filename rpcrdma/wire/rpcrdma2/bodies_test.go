package rpcrdma2

import (
	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/xdr2"
)

// bodies are all operations: ours and what goxdr made of their XDR.
var bodies = map[OptType]struct {
	name   string
	ours   func() Body
	oracle func() xdr.XdrType
}{
	OptInit:     {"INIT", func() Body { return new(Init) }, func() xdr.XdrType { return new(xdr2.Optinit_xch) }},
	OptRequest:  {"REQUEST", func() Body { return new(Request) }, func() xdr.XdrType { return new(xdr2.Optreq_xch) }},
	OptRespond:  {"RESPOND", func() Body { return new(Respond) }, func() xdr.XdrType { return new(xdr2.Optresp_xch) }},
	OptUpdate:   {"UPDATE", func() Body { return new(Update) }, func() xdr.XdrType { return new(xdr2.Optupd_xch) }},
	OptXmtReq:   {"XMTREQ", func() Body { return new(XmtReq) }, func() xdr.XdrType { return new(xdr2.Optxmt_req) }},
	OptXmtResp:  {"XMTRESP", func() Body { return new(XmtResp) }, func() xdr.XdrType { return new(xdr2.Optxmt_resp) }},
	OptXmtCont:  {"XMTCONT", func() Body { return new(XmtCont) }, func() xdr.XdrType { return new(xdr2.Optxmt_cont) }},
	OptXmtError: {"XMTERR", func() Body { return new(XmtError) }, func() xdr.XdrType { return new(xdr2.Optxmt_err) }},
}

// characteristics are the types of all characteristics as goxdr made them.
var characteristics = map[CharID]func() xdr.XdrType{
	CharReceiveSize:    func() xdr.XdrType { return xdr2.XDR_Xchrbsize(new(xdr2.Xchrbsize)) },
	CharInvalidation:   func() xdr.XdrType { return xdr2.XDR_Xchrinv(new(xdr2.Xchrinv)) },
	CharBackward:       func() xdr.XdrType { return xdr2.XDR_Xchbrs(new(xdr2.Xchbrs)) },
	CharRTR:            func() xdr.XdrType { return xdr2.XDR_Xchrrtrs(new(xdr2.Xchrrtrs)) },
	CharReceiveBuffer:  func() xdr.XdrType { return xdr2.XDR_Xmrbs_buf(new(xdr2.Xmrbs_buf)) },
	CharRequestReceive: func() xdr.XdrType { return xdr2.XDR_Xchrqrxl(new(xdr2.Xchrqrxl)) },
	CharResponseSend:   func() xdr.XdrType { return xdr2.XDR_Xchrssxl(new(xdr2.Xchrssxl)) },
}

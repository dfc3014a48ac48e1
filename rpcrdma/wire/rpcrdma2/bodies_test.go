package rpcrdma2

import (
	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

// bodies are all operations: ours and what goxdr made of their XDR.
var bodies = map[OptType]struct {
	name   string
	ours   func() Body
	oracle func() xdr.XdrType
}{
	OptInit:     {"INIT", func() Body { return new(Init) }, func() xdr.XdrType { return new(goxdr.Optinit_xch) }},
	OptRequest:  {"REQUEST", func() Body { return new(Request) }, func() xdr.XdrType { return new(goxdr.Optreq_xch) }},
	OptRespond:  {"RESPOND", func() Body { return new(Respond) }, func() xdr.XdrType { return new(goxdr.Optresp_xch) }},
	OptUpdate:   {"UPDATE", func() Body { return new(Update) }, func() xdr.XdrType { return new(goxdr.Optupd_xch) }},
	OptXmtReq:   {"XMTREQ", func() Body { return new(XmtReq) }, func() xdr.XdrType { return new(goxdr.Optxmt_req) }},
	OptXmtResp:  {"XMTRESP", func() Body { return new(XmtResp) }, func() xdr.XdrType { return new(goxdr.Optxmt_resp) }},
	OptXmtCont:  {"XMTCONT", func() Body { return new(XmtCont) }, func() xdr.XdrType { return new(goxdr.Optxmt_cont) }},
	OptXmtError: {"XMTERR", func() Body { return new(XmtError) }, func() xdr.XdrType { return new(goxdr.Optxmt_err) }},
}

// characteristics are the types of all characteristics as goxdr made them.
var characteristics = map[CharID]func() xdr.XdrType{
	CharReceiveSize:    func() xdr.XdrType { return goxdr.XDR_Xchrbsize(new(goxdr.Xchrbsize)) },
	CharInvalidation:   func() xdr.XdrType { return goxdr.XDR_Xchrinv(new(goxdr.Xchrinv)) },
	CharBackward:       func() xdr.XdrType { return goxdr.XDR_Xchbrs(new(goxdr.Xchbrs)) },
	CharRTR:            func() xdr.XdrType { return goxdr.XDR_Xchrrtrs(new(goxdr.Xchrrtrs)) },
	CharReceiveBuffer:  func() xdr.XdrType { return goxdr.XDR_Xmrbs_buf(new(goxdr.Xmrbs_buf)) },
	CharRequestReceive: func() xdr.XdrType { return goxdr.XDR_Xchrqrxl(new(goxdr.Xchrqrxl)) },
	CharResponseSend:   func() xdr.XdrType { return goxdr.XDR_Xchrssxl(new(goxdr.Xchrssxl)) },
}

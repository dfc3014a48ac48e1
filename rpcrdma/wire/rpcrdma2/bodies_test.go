package rpcrdma2

import (
	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2/internal/oracle"
)

// bodies are all operations: ours and what goxdr made of their XDR.
var bodies = map[OptType]struct {
	name   string
	ours   func() Body
	oracle func() xdr.XdrType
}{
	OptInit:     {"INIT", func() Body { return new(Init) }, func() xdr.XdrType { return new(oracle.Optinit_xch) }},
	OptRequest:  {"REQUEST", func() Body { return new(Request) }, func() xdr.XdrType { return new(oracle.Optreq_xch) }},
	OptRespond:  {"RESPOND", func() Body { return new(Respond) }, func() xdr.XdrType { return new(oracle.Optresp_xch) }},
	OptUpdate:   {"UPDATE", func() Body { return new(Update) }, func() xdr.XdrType { return new(oracle.Optupd_xch) }},
	OptXmtReq:   {"XMTREQ", func() Body { return new(XmtReq) }, func() xdr.XdrType { return new(oracle.Optxmt_req) }},
	OptXmtResp:  {"XMTRESP", func() Body { return new(XmtResp) }, func() xdr.XdrType { return new(oracle.Optxmt_resp) }},
	OptXmtCont:  {"XMTCONT", func() Body { return new(XmtCont) }, func() xdr.XdrType { return new(oracle.Optxmt_cont) }},
	OptXmtError: {"XMTERR", func() Body { return new(XmtError) }, func() xdr.XdrType { return new(oracle.Optxmt_err) }},
}

// characteristics are the types of all characteristics as goxdr made them.
var characteristics = map[CharID]func() xdr.XdrType{
	CharReceiveSize:    func() xdr.XdrType { return oracle.XDR_Xchrbsize(new(oracle.Xchrbsize)) },
	CharInvalidation:   func() xdr.XdrType { return oracle.XDR_Xchrinv(new(oracle.Xchrinv)) },
	CharBackward:       func() xdr.XdrType { return oracle.XDR_Xchbrs(new(oracle.Xchbrs)) },
	CharRTR:            func() xdr.XdrType { return oracle.XDR_Xchrrtrs(new(oracle.Xchrrtrs)) },
	CharReceiveBuffer:  func() xdr.XdrType { return oracle.XDR_Xmrbs_buf(new(oracle.Xmrbs_buf)) },
	CharRequestReceive: func() xdr.XdrType { return oracle.XDR_Xchrqrxl(new(oracle.Xchrqrxl)) },
	CharResponseSend:   func() xdr.XdrType { return oracle.XDR_Xchrssxl(new(oracle.Xchrssxl)) },
}

package referee

import (
	"testing"

	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/xdr2"
	"github.com/rdmad/rdmad/rpcrdma/internal/xdr2/xdr2test"
)

const (
	callDir, replyDir = 0, 1
	optional          = 5
)

// v2 returns MSG or NOMSG of version 2.
func v2(xid, credits, proc, dir int, l lists, payload []byte) []byte {
	return words(xid, 2, credits, proc, dir, l.bytes(), payload)
}

// error2 returns an ERROR of version 2.
func error2(xid, credits int, code ...any) []byte {
	return words(xid, 2, credits, rdmaError, words(code...))
}

// option2 returns an OPTIONAL whose body is raw bytes.
func option2(xid, credits, dir, op int, info, payload []byte) []byte {
	return words(xid, 2, credits, optional, dir, op, len(info), info, make([]byte, -len(info)&3), payload)
}

// op2 returns an OPTIONAL.
func op2(xid, credits, dir int, body xdr.XdrType, payload ...[]byte) []byte {
	op := 0
	switch body.(type) {
	case *xdr2.Optinit_xch:
		op = opInit
	case *xdr2.Optreq_xch:
		op = opRequest
	case *xdr2.Optresp_xch:
		op = opRespond
	case *xdr2.Optupd_xch:
		op = opUpdate
	case *xdr2.Optxmt_req:
		op = opXmtReq
	case *xdr2.Optxmt_resp:
		op = opXmtResp
	case *xdr2.Optxmt_cont:
		op = opXmtCont
	case *xdr2.Optxmt_err:
		op = opXmtErr
	}
	var rest []byte
	for _, p := range payload {
		rest = append(rest, p...)
	}
	return option2(xid, credits, dir, op, xdr2test.Encode(body), rest)
}

func call2Of(xid, credits int) []byte { return v2(xid, credits, msg, callDir, lists{}, null(xid)) }
func reply2Of(xid, credits int) []byte {
	return v2(xid, credits, msg, replyDir, lists{}, rpcReplyBytes(xid))
}

// exchange2 plays a call and its reply in version 2.
func (b *bed) exchange2(xid int) {
	b.send(Client, call2Of(xid, 32))
	b.send(Server, reply2Of(xid, 32))
}

// char returns one characteristic of a set.
func char(which int, data ...any) xdr2.Xcharval {
	return xdr2.Xcharval{Xchv_which: uint32(which), Xchv_data: words(data...)}
}

func initOf(set ...xdr2.Xcharval) *xdr2.Optinit_xch { return &xdr2.Optinit_xch{Optixch_start: set} }
func updateOf(set ...xdr2.Xcharval) *xdr2.Optupd_xch {
	return &xdr2.Optupd_xch{Optupxch_now: set}
}
func requestOf(set ...xdr2.Xcharval) *xdr2.Optreq_xch { return &xdr2.Optreq_xch{Optrqxch_want: set} }

func respondOf(done, rejected uint32, other ...xdr2.Xcharval) *xdr2.Optresp_xch {
	return &xdr2.Optresp_xch{Optrsxch_done: []uint32{done}, Optrsxch_rej: []uint32{rejected}, Optrsxch_other: other}
}

// structure returns a receive buffer with a plain segment of 1024 bytes and n
// target segments of 4096.
func structure(n int) xdr2.Xcharval {
	return char(charStructure, 1024+4096*n, 2, 1, 1024, 0, 0, n, 4096, 4096, 1)
}

// told2 begins a connection of version 2. The sides announce characteristics,
// and the server grants 32 credits.
func (b *bed) told2(client, server []xdr2.Xcharval) {
	b.send(Client, op2(1000, 32, callDir, initOf(client...)))
	b.send(Server, op2(1000, 32, replyDir, initOf(server...)))
	b.exchange2(1001)
}

// able are the characteristics of a side that supports groups.
var able = []xdr2.Xcharval{char(charRTR, 7), char(charRequests, 4), char(charResponses, 4)}

// request2 is a request in transmissions that carries a NULL call.
type request2 struct {
	count, rsbuf int
	items        []xdr2.Xmddp_mitem
	directions   []xdr2.Xmddp_rsdset
	repch        []seg
}

func segmentsOf(list []seg) (out []xdr2.Rpcrdma2_segment) {
	for _, s := range list {
		out = append(out, xdr2.Rpcrdma2_segment{Rdma_handle: uint32(s.stag), Rdma_length: uint32(s.length), Rdma_offset: uint64(s.offset)})
	}
	return out
}

func (q request2) body(pslen int) *xdr2.Optxmt_req {
	x := &xdr2.Optxmt_req{Optxrq_count: uint32(q.count), Optxrq_rsbuf: uint32(q.rsbuf), Optxrq_pslen: uint32(pslen), Optxrq_ddp: q.items, Optxrq_rsd: q.directions}
	if q.repch != nil {
		x.Optxrq_repch = &xdr2.Rpcrdma2_write_chunk{Rdma_target: segmentsOf(q.repch)}
	}
	return x
}

// bytes returns the first transmission, with the whole call in it.
func (q request2) bytes(xid int) []byte {
	return op2(xid, 32, callDir, q.body(len(null(xid))), null(xid))
}

func cont(xid, dir, number, itype, pslen int, payload []byte) []byte {
	return op2(xid, 32, dir, &xdr2.Optxmt_cont{Optxc_xnum: uint32(number), Optxc_itype: uint32(itype), Optxc_pslen: uint32(pslen)}, payload)
}

// empty returns an XMTCONT without payload.
func empty(xid, dir, number, itype int) []byte { return cont(xid, dir, number, itype, 0, nil) }

// response2 is a response in transmissions.
type response2 struct {
	count int
	items []xdr2.Xmddp_mitem
}

func (q response2) bytes(xid int, results ...any) []byte {
	text := rpcReplyBytes(xid, results...)
	return op2(xid, 32, replyDir, &xdr2.Optxmt_resp{Optxrs_count: uint32(q.count), Optxrs_pslen: uint32(len(text)), Optxrs_ddp: q.items}, text)
}

// response returns a response of one transmission.
func response(xid int, items ...xdr2.Xmddp_mitem) []byte { return response2{1, items}.bytes(xid) }

// item returns an item that is only in the payload stream.
func item(disp, length int, where xdr2.Xmddp_type) xdr2.Xmddp_mitem {
	return xdr2.Xmddp_mitem{Xmdmi_disp: uint32(disp), Xmdmi_length: uint32(length), Xmdmi_where: xdr2.Xmddp_loc{Type: where}}
}

func exrw(disp, length int, segs ...seg) xdr2.Xmddp_mitem {
	i := item(disp, length, xdr2.XMDTYPE_EXRW)
	*i.Xmdmi_where.Xmdl_ex() = segmentsOf(segs)
	return i
}

func tbsn(disp, length, offset int, numbers ...uint32) xdr2.Xmddp_mitem {
	i := item(disp, length, xdr2.XMDTYPE_TBSN)
	*i.Xmdmi_where.Xmdl_tbsn() = xdr2.Xmddp_tbsnloc{Xmdl_offset: uint32(offset), Xmdl_bsnum: numbers}
	return i
}

// direct returns a direction for a result.
func direct(how xdr2.Xmddp_type, least, threshold int, segs ...seg) xdr2.Xmddp_rsditem {
	d := xdr2.Xmddp_rsditem{Xmdrsdi_minlen: uint32(least), Xmdrsdi_loc: xdr2.Xmddp_rsdloc{Type: how}}
	switch how {
	case xdr2.XMDTYPE_EXRW:
		*d.Xmdrsdi_loc.Xmdrsdl_ex() = segmentsOf(segs)
	case xdr2.XMDTYPE_CHOICE:
		*d.Xmdrsdi_loc.Xmdrsdl_chex() = segmentsOf(segs)
	case xdr2.XMDTYPE_BYSIZE:
		*d.Xmdrsdi_loc.Xmdrsdl_bysize() = xdr2.Xmddp_bysize{Xmdrsdl_dsdov: uint32(threshold), Xmdrsdl_bsex: segmentsOf(segs)}
	}
	return d
}

// over returns a range of directions.
func over(begin, end int, list ...xdr2.Xmddp_rsditem) xdr2.Xmddp_rsdset {
	return xdr2.Xmddp_rsdset{Xmdrsds_range: xdr2.Xmddp_rsdrange{Xmdrsdr_begin: uint32(begin), Xmdrsdr_end: uint32(end)}, Xmdrsds_items: list}
}

// xmtError returns an XMTERR.
func xmtError(xid, dir int, bad xdr2.Xms_id, which xdr2.Optx_err, numbers ...uint32) []byte {
	x := &xdr2.Optxmt_err{Optxe_bad: bad, Optxe_info: xdr2.Optx_info{Optxe_which: which}}
	numbers = append(numbers, 0, 0, 0)
	expected := xdr2.Optx_expected{Optxi_expect: numbers[0], Optxi_current: numbers[1]}
	limits := xdr2.Optx_range{Optxi_value: numbers[0], Optxi_min: numbers[1], Optxi_max: numbers[2]}
	switch which {
	case xdr2.OPTXERR_BADHMT:
		*x.Optxe_info.Optxi_hmt() = expected
	case xdr2.OPTXERR_BADOMT:
		*x.Optxe_info.Optxi_omt() = expected
	case xdr2.OPTXERR_BADSEQ:
		*x.Optxe_info.Optxi_seq() = expected
	case xdr2.OPTXERR_BADXID:
		*x.Optxe_info.Optxi_xid() = expected
	case xdr2.OPTXERR_BADOFF:
		*x.Optxe_info.Optxi_off() = limits
	case xdr2.OPTXERR_BADTBSN:
		*x.Optxe_info.Optxi_tbsn() = limits
	case xdr2.OPTXERR_BADPL:
		*x.Optxe_info.Optxi_pl() = limits
	}
	return op2(xid, 32, dir, x)
}

func id(xid, dir, number int) xdr2.Xms_id {
	return xdr2.Xms_id{Xmsi_xid: uint32(xid), Xmsi_dir: xdr2.Msg_type(dir), Xmsi_seq: uint32(number)}
}

// TestPlanted2 plays a conversation for each rule of version 2.
func TestPlanted2(t *testing.T) { testPlanted(t, rules2, planted2) }

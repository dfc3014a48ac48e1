package referee

import (
	"testing"

	"github.com/xdrpp/goxdr/xdr"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr/goxdrtest"
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
	case *goxdr.Optinit_xch:
		op = opInit
	case *goxdr.Optreq_xch:
		op = opRequest
	case *goxdr.Optresp_xch:
		op = opRespond
	case *goxdr.Optupd_xch:
		op = opUpdate
	case *goxdr.Optxmt_req:
		op = opXmtReq
	case *goxdr.Optxmt_resp:
		op = opXmtResp
	case *goxdr.Optxmt_cont:
		op = opXmtCont
	case *goxdr.Optxmt_err:
		op = opXmtErr
	}
	var rest []byte
	for _, p := range payload {
		rest = append(rest, p...)
	}
	return option2(xid, credits, dir, op, goxdrtest.Encode(body), rest)
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
func char(which int, data ...any) goxdr.Xcharval {
	return goxdr.Xcharval{Xchv_which: uint32(which), Xchv_data: words(data...)}
}

func initOf(set ...goxdr.Xcharval) *goxdr.Optinit_xch { return &goxdr.Optinit_xch{Optixch_start: set} }
func updateOf(set ...goxdr.Xcharval) *goxdr.Optupd_xch {
	return &goxdr.Optupd_xch{Optupxch_now: set}
}
func requestOf(set ...goxdr.Xcharval) *goxdr.Optreq_xch { return &goxdr.Optreq_xch{Optrqxch_want: set} }

func respondOf(done, rejected uint32, other ...goxdr.Xcharval) *goxdr.Optresp_xch {
	return &goxdr.Optresp_xch{Optrsxch_done: []uint32{done}, Optrsxch_rej: []uint32{rejected}, Optrsxch_other: other}
}

// structure returns a receive buffer with a plain segment of 1024 bytes and n
// target segments of 4096.
func structure(n int) goxdr.Xcharval {
	return char(charStructure, 1024+4096*n, 2, 1, 1024, 0, 0, n, 4096, 4096, 1)
}

// told2 begins a connection of version 2. The sides announce characteristics,
// and the server grants 32 credits.
func (b *bed) told2(client, server []goxdr.Xcharval) {
	b.send(Client, op2(1000, 32, callDir, initOf(client...)))
	b.send(Server, op2(1000, 32, replyDir, initOf(server...)))
	b.exchange2(1001)
}

// able are the characteristics of a side that supports groups.
var able = []goxdr.Xcharval{char(charRTR, 7), char(charRequests, 4), char(charResponses, 4)}

// request2 is a request in transmissions that carries a NULL call.
type request2 struct {
	count, rsbuf int
	items        []goxdr.Xmddp_mitem
	directions   []goxdr.Xmddp_rsdset
	repch        []seg
}

func segmentsOf(list []seg) (out []goxdr.Rpcrdma2_segment) {
	for _, s := range list {
		out = append(out, goxdr.Rpcrdma2_segment{Rdma_handle: uint32(s.stag), Rdma_length: uint32(s.length), Rdma_offset: uint64(s.offset)})
	}
	return out
}

func (q request2) body(pslen int) *goxdr.Optxmt_req {
	x := &goxdr.Optxmt_req{Optxrq_count: uint32(q.count), Optxrq_rsbuf: uint32(q.rsbuf), Optxrq_pslen: uint32(pslen), Optxrq_ddp: q.items, Optxrq_rsd: q.directions}
	if q.repch != nil {
		x.Optxrq_repch = &goxdr.Rpcrdma2_write_chunk{Rdma_target: segmentsOf(q.repch)}
	}
	return x
}

// bytes returns the first transmission, with the whole call in it.
func (q request2) bytes(xid int) []byte {
	return op2(xid, 32, callDir, q.body(len(null(xid))), null(xid))
}

func cont(xid, dir, number, itype, pslen int, payload []byte) []byte {
	return op2(xid, 32, dir, &goxdr.Optxmt_cont{Optxc_xnum: uint32(number), Optxc_itype: uint32(itype), Optxc_pslen: uint32(pslen)}, payload)
}

// empty returns an XMTCONT without payload.
func empty(xid, dir, number, itype int) []byte { return cont(xid, dir, number, itype, 0, nil) }

// response2 is a response in transmissions.
type response2 struct {
	count int
	items []goxdr.Xmddp_mitem
}

func (q response2) bytes(xid int, results ...any) []byte {
	text := rpcReplyBytes(xid, results...)
	return op2(xid, 32, replyDir, &goxdr.Optxmt_resp{Optxrs_count: uint32(q.count), Optxrs_pslen: uint32(len(text)), Optxrs_ddp: q.items}, text)
}

// response returns a response of one transmission.
func response(xid int, items ...goxdr.Xmddp_mitem) []byte { return response2{1, items}.bytes(xid) }

// item returns an item that is only in the payload stream.
func item(disp, length int, where goxdr.Xmddp_type) goxdr.Xmddp_mitem {
	return goxdr.Xmddp_mitem{Xmdmi_disp: uint32(disp), Xmdmi_length: uint32(length), Xmdmi_where: goxdr.Xmddp_loc{Type: where}}
}

func exrw(disp, length int, segs ...seg) goxdr.Xmddp_mitem {
	i := item(disp, length, goxdr.XMDTYPE_EXRW)
	*i.Xmdmi_where.Xmdl_ex() = segmentsOf(segs)
	return i
}

func tbsn(disp, length, offset int, numbers ...uint32) goxdr.Xmddp_mitem {
	i := item(disp, length, goxdr.XMDTYPE_TBSN)
	*i.Xmdmi_where.Xmdl_tbsn() = goxdr.Xmddp_tbsnloc{Xmdl_offset: uint32(offset), Xmdl_bsnum: numbers}
	return i
}

// direct returns a direction for a result.
func direct(how goxdr.Xmddp_type, least, threshold int, segs ...seg) goxdr.Xmddp_rsditem {
	d := goxdr.Xmddp_rsditem{Xmdrsdi_minlen: uint32(least), Xmdrsdi_loc: goxdr.Xmddp_rsdloc{Type: how}}
	switch how {
	case goxdr.XMDTYPE_EXRW:
		*d.Xmdrsdi_loc.Xmdrsdl_ex() = segmentsOf(segs)
	case goxdr.XMDTYPE_CHOICE:
		*d.Xmdrsdi_loc.Xmdrsdl_chex() = segmentsOf(segs)
	case goxdr.XMDTYPE_BYSIZE:
		*d.Xmdrsdi_loc.Xmdrsdl_bysize() = goxdr.Xmddp_bysize{Xmdrsdl_dsdov: uint32(threshold), Xmdrsdl_bsex: segmentsOf(segs)}
	}
	return d
}

// over returns a range of directions.
func over(begin, end int, list ...goxdr.Xmddp_rsditem) goxdr.Xmddp_rsdset {
	return goxdr.Xmddp_rsdset{Xmdrsds_range: goxdr.Xmddp_rsdrange{Xmdrsdr_begin: uint32(begin), Xmdrsdr_end: uint32(end)}, Xmdrsds_items: list}
}

// xmtError returns an XMTERR.
func xmtError(xid, dir int, bad goxdr.Xms_id, which goxdr.Optx_err, numbers ...uint32) []byte {
	x := &goxdr.Optxmt_err{Optxe_bad: bad, Optxe_info: goxdr.Optx_info{Optxe_which: which}}
	numbers = append(numbers, 0, 0, 0)
	expected := goxdr.Optx_expected{Optxi_expect: numbers[0], Optxi_current: numbers[1]}
	limits := goxdr.Optx_range{Optxi_value: numbers[0], Optxi_min: numbers[1], Optxi_max: numbers[2]}
	switch which {
	case goxdr.OPTXERR_BADHMT:
		*x.Optxe_info.Optxi_hmt() = expected
	case goxdr.OPTXERR_BADOMT:
		*x.Optxe_info.Optxi_omt() = expected
	case goxdr.OPTXERR_BADSEQ:
		*x.Optxe_info.Optxi_seq() = expected
	case goxdr.OPTXERR_BADXID:
		*x.Optxe_info.Optxi_xid() = expected
	case goxdr.OPTXERR_BADOFF:
		*x.Optxe_info.Optxi_off() = limits
	case goxdr.OPTXERR_BADTBSN:
		*x.Optxe_info.Optxi_tbsn() = limits
	case goxdr.OPTXERR_BADPL:
		*x.Optxe_info.Optxi_pl() = limits
	}
	return op2(xid, 32, dir, x)
}

func id(xid, dir, number int) goxdr.Xms_id {
	return goxdr.Xms_id{Xmsi_xid: uint32(xid), Xmsi_dir: goxdr.Msg_type(dir), Xmsi_seq: uint32(number)}
}

// TestPlanted2 plays a conversation for each rule of version 2.
func TestPlanted2(t *testing.T) { testPlanted(t, rules2, planted2) }

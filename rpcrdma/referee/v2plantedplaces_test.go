package referee

import "github.com/rdmad/rdmad/rpcrdma/internal/goxdr"

// placed2 returns an XMTREQ with items, size bytes in all.
func placed2(xid, count, size int, items ...goxdr.Xmddp_mitem) []byte {
	first := request2{count: count, items: items}.bytes(xid)
	return append(first, make([]byte, size-len(first))...)
}

// targets2 begins a connection whose server has receives of 1024 plain bytes
// and two target segments of 4096.
func (b *bed) targets2() {
	b.told2(able, append(able[:3:3], char(charSize, 9216), structure(2)))
}

var plantedPlaces = []planted{
	{"placement.request", "", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, items: []goxdr.Xmddp_mitem{pick(bad, item(40, 0, goxdr.XMDTYPE_NOITEM), exrw(40, 8, seg{7, 8, 0}))}}.bytes(1))
	}},
	{"placement.order", "overlap", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, items: []goxdr.Xmddp_mitem{exrw(40, 9, seg{7, 9, 0}), exrw(pick(bad, 48, 52), 8, seg{8, 8, 0})}}.bytes(1))
	}},
	{"placement.order", "beyond", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, items: []goxdr.Xmddp_mitem{exrw(40, 9, seg{7, 9, 0}), exrw(pick(bad, 56, 52), 8, seg{8, 8, 0})}}.bytes(1))
	}},
	{"placement.position", "", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, items: []goxdr.Xmddp_mitem{exrw(pick(bad, 38, 40), 8, seg{7, 8, 0})}}.bytes(1))
	}},
	{"placement.source", "", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, items: []goxdr.Xmddp_mitem{exrw(40, 17, seg{7, 8, 0}, seg{8, pick(bad, 8, 9), 0})}}.bytes(1))
	}},
	{"placement.target", "no structure", Client, func(b *bed, bad bool) {
		b.told2(able, append(able[:3:3], pick(bad, char(charSize, 9216), structure(2))))
		b.known2(Client)
		b.send(Client, placed2(1, 1, 1024+100, tbsn(40, 100, 0, 0)))
	}},
	{"placement.target", "of a transmission that did not come", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		b.send(Client, placed2(1, 1, 1024+4096+100, tbsn(40, 100, 0, pick[uint32](bad, 2, 1))))
	}},
	{"placement.target", "of the next transmission", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		b.send(Client, placed2(1, 2, 1024+8192, tbsn(40, 8192+100, 0, 0, 1, pick[uint32](bad, 3, 2))))
		second := cont(1, callDir, 1, opXmtReq, 0, nil)
		b.send(Client, append(second, make([]byte, 1024+100-len(second))...))
	}},
	{"placement.target", "cut short", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		b.send(Client, placed2(1, 1, 1024+pick(bad, 99, 100), tbsn(40, 100, 0, 0)))
	}},
	{"placement.target", "longer than its segments", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		b.send(Client, placed2(1, 1, 9216, tbsn(40, pick(bad, 4097, 4096), 0, 0)))
	}},
	{"placement.target", "twice the same", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		b.send(Client, placed2(1, 1, 9216, tbsn(40, 100, 0, 0), tbsn(140, 100, pick(bad, 96, 100), 0)))
	}},
	{"placement.target", "offset beyond the segment", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		b.send(Client, placed2(1, 1, 9216, tbsn(40, 4, pick(bad, 4096, 4092), 0)))
	}},
	{"placement.target", "offset of no whole words", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		b.send(Client, placed2(1, 1, 9216, tbsn(40, 4, pick(bad, 2, 4), 0)))
	}},
	{"placement.target", "the payload stream is there", Client, func(b *bed, bad bool) {
		b.told2(able, append(able[:3:3], char(charStructure, 4096+64, 2, 1, pick(bad, 64, 512), 0, 0, 1, pick(bad, 4096, 4096+64-512), 0, 1)))
		b.known2(Client)
		b.send(Client, placed2(1, 1, 1000, tbsn(40, 100, 0, 0)))
	}},
	{"placement.target", "withdrawn", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		b.send(Server, op2(5, 32, replyDir, updateOf(char(charStructure))))
		if bad { // otherwise the client may not have received it
			b.known2(Client)
		}
		b.send(Client, placed2(1, 1, 9216, tbsn(40, 4, 0, 0)))
	}},
	{"placement.ranges", "overlap", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, directions: []goxdr.Xmddp_rsdset{over(0, 8), over(pick(bad, 7, 8), 9)}}.bytes(1))
	}},
	{"placement.ranges", "reversed", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, directions: []goxdr.Xmddp_rsdset{over(pick(bad, 9, 8), 8)}}.bytes(1))
	}},
	{"placement.count", "", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_TBSN, 0, 0), direct(goxdr.XMDTYPE_TBSN, 0, 0))
		list := []goxdr.Xmddp_mitem{item(0, 0, goxdr.XMDTYPE_NOITEM), item(0, 0, goxdr.XMDTYPE_TOOSHORT)}
		b.send(Server, response(1, list[:pick(bad, 1, 2)]...))
	}},
	{"placement.count", "of a plain call", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, call2Of(1, 32))
		b.send(Server, response(1, pick(bad, []goxdr.Xmddp_mitem{item(0, 0, goxdr.XMDTYPE_NOITEM)}, nil)...))
	}},
	{"placement.answer", "TBSN for EXRW", Server, func(b *bed, bad bool) {
		b.directs(direct(pick(bad, goxdr.XMDTYPE_EXRW, goxdr.XMDTYPE_CHOICE), 0, 0, seg{8, 100, 0}))
		b.send(Server, placedResponse(1, tbsn(24, 4, 0, 0)))
	}},
	{"placement.answer", "EXRW for TBSN", Server, func(b *bed, bad bool) {
		how := pick(bad, goxdr.XMDTYPE_TBSN, goxdr.XMDTYPE_EXRW)
		b.directs(direct(how, 0, 0, seg{8, 100, 0}))
		if !bad {
			b.write(Server, 8, 0, make([]byte, 8))
		}
		b.send(Server, response(1, exrw(24, 8, seg{8, 8, 0})))
	}},
	{"placement.answer", "BYSIZE, EXRW", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_BYSIZE, 0, pick(bad, 9, 8), seg{8, 100, 0}))
		b.write(Server, 8, 0, make([]byte, 8))
		b.send(Server, response(1, exrw(24, 8, seg{8, 8, 0})))
	}},
	{"placement.answer", "BYSIZE, TBSN", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_BYSIZE, 0, pick(bad, 8, 9), seg{8, 100, 0}))
		b.send(Server, placedResponse(1, tbsn(24, 8, 0, 0)))
	}},
	{"placement.minlen", "", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_TBSN, pick(bad, 9, 8), 0))
		b.send(Server, placedResponse(1, tbsn(24, 8, 0, 0)))
	}},
	{"placement.segments", "another STag", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 100, 0}))
		b.write(Server, 8, 0, make([]byte, 8))
		b.send(Server, response(1, exrw(24, 8, seg{pick(bad, 9, 8), 8, 0})))
	}},
	{"placement.segments", "longer", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_CHOICE, 0, 0, seg{8, 100, 0}))
		b.write(Server, 8, 0, make([]byte, 100))
		b.send(Server, response(1, exrw(24, 100, seg{8, pick(bad, 101, 100), 0})))
	}},
	{"placement.segments", "too many", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 100, 0}))
		b.write(Server, 8, 0, make([]byte, 100))
		b.send(Server, response(1, exrw(24, 100, []seg{{8, 100, 0}, {9, 0, 0}}[:pick(bad, 2, 1)]...)))
	}},
	{"placement.unwritten", "", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 100, 0}, seg{9, 100, 0}))
		b.write(Server, 8, 0, make([]byte, 100))
		b.write(Server, 9, 0, make([]byte, pick(bad, 19, 20)))
		b.send(Server, response(1, exrw(24, 120, seg{8, 100, 0}, seg{9, 100, 0})))
	}},
	{"placement.reply-chunk", "", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, repch: []seg{{8, 100, 0}}}.bytes(1))
		b.write(Server, 8, 0, rpcReplyBytes(1))
		if bad {
			b.send(Server, response(1))
		} else {
			b.send(Server, v2(1, 32, nomsg, replyDir, lists{reply: []seg{{8, 24, 0}}}, nil))
		}
	}},
}

// directs begins a connection and makes a call that directs results. The
// client's receives have target segments.
func (b *bed) directs(list ...goxdr.Xmddp_rsditem) {
	b.told2(append(able[:3:3], char(charSize, 9216), structure(2)), able)
	b.send(Client, request2{count: 1, directions: []goxdr.Xmddp_rsdset{over(0, 40, list...)}}.bytes(1))
}

// placedResponse returns an XMTRESP of 9216 bytes.
func placedResponse(xid int, items ...goxdr.Xmddp_mitem) []byte {
	first := response(xid, items...)
	return append(first, make([]byte, 9216-len(first))...)
}

package referee

import "github.com/rdmad/rdmad/rpcrdma/internal/goxdr"

var plantedGroups = []planted{
	{"rtr.unsupported", "XMTREQ", Client, func(b *bed, bad bool) {
		b.told2(able, []goxdr.Xcharval{char(charRTR, pick(bad, 6, 7))})
		b.known2(Client)
		b.send(Client, request2{count: 1}.bytes(1))
	}},
	{"rtr.unsupported", "XMTRESP", Server, func(b *bed, bad bool) {
		b.told2([]goxdr.Xcharval{char(charRTR, pick(bad, 1, 2))}, able)
		b.known2(Server)
		b.send(Client, call2Of(1, 32))
		b.send(Server, response(1))
	}},
	{"rtr.unsupported", "XMTCONT", Client, func(b *bed, bad bool) {
		b.told2(able, []goxdr.Xcharval{char(charRTR, pick(bad, 3, 7)), char(charRequests, 2)})
		b.known2(Client)
		b.send(Client, request2{count: 2}.bytes(1))
		b.send(Client, empty(1, callDir, 1, opXmtReq))
	}},
	{"group.count", "request", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: pick(bad, 0, 1)}.bytes(1))
	}},
	{"group.count", "response", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1}.bytes(1))
		b.send(Server, response2{count: pick(bad, 0, 1)}.bytes(1))
	}},
	{"group.interrupted", "by a call", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 3}.bytes(1))
		if bad {
			b.send(Client, call2Of(2, 32))
		}
		b.send(Server, call2Of(3, 1)) // of the other side: it may come in between
		b.send(Client, empty(1, callDir, 1, opXmtReq))
		b.send(Client, empty(1, callDir, 2, opXmtReq))
	}},
	{"group.interrupted", "by a reply to a call of the client", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, rsbuf: 1}.bytes(1))
		b.send(Client, call2Of(2, 32))
		b.send(Server, response2{count: 2}.bytes(1))
		if bad {
			b.send(Server, reply2Of(2, 32))
		}
		b.send(Server, empty(1, replyDir, 1, opXmtResp))
		if !bad {
			b.send(Server, reply2Of(2, 32))
		}
	}},
	{"group.interrupted", "of the reverse direction", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.exchangeBack(3)
		b.send(Server, request2{count: 2}.bytes(1))
		if bad {
			b.send(Server, op2(2, 32, replyDir, updateOf()))
		}
		b.send(Server, empty(1, callDir, 1, opXmtReq))
	}},
	{"group.stray", "", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: pick(bad, 1, 2)}.bytes(1))
		b.send(Client, empty(1, callDir, 1, opXmtReq))
	}},
	{"group.stray", "named like a call in flight", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1}.bytes(1))
		if bad {
			b.send(Client, empty(1, callDir, 0, opXmtReq))
			b.send(Server, xmtError(1, replyDir, id(1, callDir, 0), goxdr.OPTXERR_BADCONT))
		}
		b.send(Server, response(1))
	}},
	{"group.xid", "", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 2}.bytes(1))
		b.send(Client, empty(pick(bad, 2, 1), callDir, 1, opXmtReq))
	}},
	{"group.number", "", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 3}.bytes(1))
		b.send(Client, empty(1, callDir, pick(bad, 2, 1), opXmtReq))
		b.send(Client, empty(1, callDir, 2, opXmtReq))
	}},
	{"group.itype", "", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, rsbuf: 1}.bytes(1))
		b.send(Server, response2{count: 2}.bytes(1))
		b.send(Server, empty(1, replyDir, 1, pick(bad, opXmtReq, opXmtResp)))
	}},
	{"group.direction", "XMTCONT", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, rsbuf: 1}.bytes(1))
		b.send(Server, response2{count: 2}.bytes(1))
		b.send(Server, empty(1, pick(bad, callDir, replyDir), 1, opXmtResp))
	}},
	{"group.direction", "XMTREQ", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, op2(1, 32, pick(bad, replyDir, callDir), request2{count: 2}.body(0)))
	}},
	{"group.direction", "XMTRESP", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, rsbuf: 1}.bytes(1))
		b.send(Server, op2(1, 32, pick(bad, callDir, replyDir), &goxdr.Optxmt_resp{Optxrs_count: 2}))
	}},
	{"group.payload", "too long", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, op2(1, 32, callDir, request2{count: 1}.body(pick(bad, 44, 40)), null(1)))
	}},
	{"group.payload", "something behind it", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 2}.bytes(1))
		b.send(Client, cont(1, callDir, 1, opXmtReq, 4, words(0, pick(bad, words(0), nil))))
	}},
	{"group.request-limit", "", Client, func(b *bed, bad bool) {
		b.told2(able, []goxdr.Xcharval{char(charRTR, 7), char(charRequests, pick(bad, 2, 3))})
		b.known2(Client)
		b.group(Client, 1, 3)
	}},
	{"group.request-limit", "nothing told", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.group(Client, 2, pick(bad, 2, 1))
	}},
	{"group.response-limit", "", Server, func(b *bed, bad bool) {
		b.told2(able, []goxdr.Xcharval{char(charRTR, 7), char(charResponses, pick(bad, 1, 2))})
		b.known2(Client)
		b.send(Client, request2{count: 1, rsbuf: 7}.bytes(1))
		b.send(Server, response2{count: 2}.bytes(1))
		b.send(Server, empty(1, replyDir, 1, opXmtResp))
	}},
	{"group.response-limit", "lowered since", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		if bad {
			b.send(Server, op2(5, 32, replyDir, updateOf(char(charResponses, 1))))
			b.known2(Client)
		}
		b.send(Client, request2{count: 1, rsbuf: 7}.bytes(1))
		if !bad {
			b.send(Server, op2(5, 32, replyDir, updateOf(char(charResponses, 1))))
			b.known2(Client)
		}
		b.send(Server, response2{count: 2}.bytes(1))
		b.send(Server, empty(1, replyDir, 1, opXmtResp))
	}},
	{"group.promised", "", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, rsbuf: pick(bad, 1, 2)}.bytes(1))
		b.send(Server, response2{count: 3}.bytes(1))
		b.send(Server, empty(1, replyDir, 1, opXmtResp))
		b.send(Server, empty(1, replyDir, 2, opXmtResp))
	}},
}

// exchangeBack plays a call of the server, which the client answers with 32
// credits.
func (b *bed) exchangeBack(xid int) {
	b.send(Server, call2Of(xid, 32))
	b.send(Client, reply2Of(xid, 32))
}

// group sends a request of count transmissions.
func (b *bed) group(from Side, xid, count int) {
	b.send(from, request2{count: count}.bytes(xid))
	for i := 1; i < count; i++ {
		b.send(from, empty(xid, callDir, i, opXmtReq))
	}
}

var plantedXmtErr = []planted{
	{"xmterr.unknown", "bad", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.group(Client, 1, 2)
		b.send(Server, xmtError(1, replyDir, id(pick(bad, 2, 1), callDir, 1), goxdr.OPTXERR_BADCONT))
	}},
	{"xmterr.unknown", "number", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.group(Client, 1, 2)
		b.send(Server, xmtError(1, replyDir, id(1, callDir, pick(bad, 2, 1)), goxdr.OPTXERR_BADCONT))
	}},
	{"xmterr.unknown", "a reverse call that was none", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, rsbuf: 1}.bytes(1))
		b.send(Server, response2{count: 2}.bytes(1))
		b.send(Client, xmtError(1, callDir, id(1, pick(bad, callDir, replyDir), 0), goxdr.OPTXERR_BADPL, 41, 0, 40))
	}},
	{"xmterr.values", "sequence", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.group(Client, 1, 2)
		b.send(Server, xmtError(1, replyDir, id(1, callDir, 1), goxdr.OPTXERR_BADSEQ, 1, pick[uint32](bad, 1, 2)))
	}},
	{"xmterr.values", "payload", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.group(Client, 1, 2)
		b.send(Server, xmtError(1, replyDir, id(1, callDir, 0), goxdr.OPTXERR_BADPL, pick[uint32](bad, 40, 44), 0, 40))
	}},
}

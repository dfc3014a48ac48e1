package referee

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

var planted2 = slices.Concat(plantedForms2, plantedSizes, plantedVersions, plantedCharacteristics, plantedGroups, plantedPlaces, plantedXmtErr, plantedShared)

var plantedForms2 = []planted{
	{"v2.header", "type", Client, func(b *bed, bad bool) {
		b.send(Client, v2(1, 1, pick(bad, 2, msg), callDir, lists{}, null(1)))
	}},
	{"v2.header", "direction", Client, func(b *bed, bad bool) {
		b.send(Client, v2(1, 1, msg, pick(bad, 2, callDir), lists{}, null(1)))
	}},
	{"v2.header", "list", Client, func(b *bed, bad bool) {
		b.send(Client, words(1, 2, 1, msg, callDir, pick(bad, 2, 0), 0, 0, null(1)))
	}},
	{"v2.header", "error code", Server, func(b *bed, bad bool) {
		b.send(Client, call2Of(1, 1))
		b.send(Server, error2(1, 1, pick(bad, 4, 2)))
	}},
	{"v2.header", "body", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, option2(2, 32, callDir, opUpdate, words(pick(bad, 1, 0)), nil))
	}},
	{"v2.header", "bytes left over", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, option2(2, 32, callDir, opRequest, pick(bad, words(0, 0), words(0)), nil))
		b.send(Server, error2(2, 32, 2))
	}},
	{"v2.header", "XMTREQ", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, option2(2, 32, callDir, opXmtReq, words(0, 0, 1, 0, pick(bad, 3, 0), 40), null(2)))
		b.send(Server, error2(2, 32, 2))
	}},
	{"v2.direction", "MSG", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, v2(2, 32, msg, callDir, lists{}, pick(bad, rpcReplyBytes(2), null(2))))
	}},
	{"v2.direction", "group", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1}.bytes(1))
		text := pick(bad, null(1), rpcReplyBytes(1))
		b.send(Server, op2(1, 32, replyDir, &goxdr.Optxmt_resp{Optxrs_count: 1, Optxrs_pslen: uint32(len(text))}, text))
	}},
	{"v2.trailing", "INIT", Client, func(b *bed, bad bool) {
		b.send(Client, op2(1, 32, callDir, initOf(), pick(bad, null(1), nil)))
	}},
	{"v2.trailing", "UPDATE", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Server, op2(1, 32, replyDir, updateOf(), pick(bad, words(0), nil)))
	}},
	{"v2.reply-reads", "", Server, func(b *bed, bad bool) {
		b.send(Client, call2Of(1, 1))
		b.send(Server, v2(1, 1, msg, replyDir, lists{reads: pick(bad, []rd{{12, seg{7, 8, 0}}}, nil)}, rpcReplyBytes(1)))
	}},
	{"v2.error-code", "", Server, func(b *bed, bad bool) {
		b.send(Client, call2Of(1, 1))
		b.send(Server, error2(1, 1, pick(bad, 3, 2)))
	}},
	{"v2.error-direction", "", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Server, op2(5, 32, pick(bad, replyDir, callDir), updateOf(char(charStructure, 8))))
		b.got = nil // the structure is malformed, which is another matter
		b.send(Client, error2(5, 32, 2))
	}},
	{"rtr.unsupported", "by what was refused", Client, func(b *bed, bad bool) {
		b.told2(able, []goxdr.Xcharval{char(charRTR, pick(bad, 0, 7))})
		b.send(Client, op2(2, 32, callDir, requestOf()))
		b.send(Server, op2(2, 32, replyDir, respondOf(0, 0)))
		b.send(Server, op2(3, 32, replyDir, updateOf(char(charRTR, 7), char(charInvalidate, 8))))
		b.got = nil // the malformed value is another matter
		b.exchange2(4)
		b.exchange2(5)
		b.send(Client, request2{count: 1}.bytes(6))
	}},
	{"v2.option-unanswered", "", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, option2(2, 32, callDir, 77, nil, nil))
		if !bad {
			b.send(Server, error2(2, 32, 3))
		}
		for xid := range 2 * patience {
			b.exchange2(10 + xid)
		}
	}},
}

// tooLong sends a Terminate because a message is longer than its receive.
func (b *bed) tooLong(from Side) {
	b.event(Event{Kind: Terminate, From: from, Layer: 1, Type: 2, Code: 5})
}

var plantedSizes = []planted{
	{"size.supported", "default", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, v2(2, 32, msg, callDir, lists{}, append(null(2), make([]byte, 4000)...)))
		if bad {
			b.tooLong(Server)
		} else {
			b.event(Event{Kind: Terminate, From: Server, Layer: 1, Type: 2, Code: 2})
		}
	}},
	{"size.supported", "told", Client, func(b *bed, bad bool) {
		b.told2([]goxdr.Xcharval{char(charSize, 8192)}, nil)
		b.known2(Server)
		b.send(Client, call2Of(2, 32))
		b.send(Server, v2(2, 32, msg, replyDir, lists{}, append(rpcReplyBytes(2), make([]byte, 8000)...)))
		if bad {
			b.tooLong(Client)
		}
	}},
	{"size.supported", "lowered while the message was on its way", Server, func(b *bed, bad bool) {
		b.told2(nil, []goxdr.Xcharval{char(charSize, 8192)})
		b.known2(Client)
		b.send(Client, v2(2, 32, msg, callDir, lists{}, append(null(2), make([]byte, 5000)...)))
		if bad {
			b.tooLong(Server)
			return
		}
		b.send(Client, op2(3, 32, callDir, requestOf(char(charSize, 4096))))
		b.send(Server, op2(3, 32, replyDir, respondOf(1, 0)))
		b.send(Server, op2(4, 32, replyDir, updateOf(char(charSize, 6000))))
		b.send(Client, v2(5, 32, msg, callDir, lists{}, append(null(5), make([]byte, 5000)...)))
		b.tooLong(Server)
	}},
}

var plantedVersions = []planted{
	{"version.first-size", "MSG", Client, func(b *bed, bad bool) {
		b.send(Client, v2(1, 1, msg, callDir, lists{}, append(null(1), make([]byte, pick(bad, 1024, 1024-32-40))...)))
	}},
	{"version.first-size", "after an error", Client, func(b *bed, bad bool) {
		b.send(Client, op2(1, 1, callDir, initOf()))
		b.send(Server, error2(1, 1, 3))
		b.send(Client, v2(2, 1, msg, callDir, lists{}, append(null(2), make([]byte, pick(bad, 1024, 1024-32-40))...)))
	}},
	{"version.first-alone", "", Client, func(b *bed, bad bool) {
		b.send(Client, op2(1, 1, callDir, initOf()))
		if !bad {
			b.send(Server, op2(1, 1, replyDir, initOf()))
		}
		b.send(Client, call2Of(2, 1))
	}},
	{"version.first-alone", "the server's INIT has an XID of its own", Client, func(b *bed, bad bool) {
		if !bad {
			b.send(Server, op2(9, 1, replyDir, initOf()))
		}
		b.send(Client, op2(1, 1, callDir, initOf()))
		b.send(Client, call2Of(2, 1))
	}},
	{"version.changed", "call", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, pick(bad, callOf(2, 1), call2Of(2, 1)))
	}},
	{"version.changed", "call of the server", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Server, pick(bad, callOf(2, 1), call2Of(2, 1)))
	}},
	{"version.changed", "from 1 to 2", Client, func(b *bed, bad bool) {
		b.exchange(1)
		b.send(Client, pick(bad, call2Of(2, 1), callOf(2, 1)))
	}},
	{"version.range", "", Client, func(b *bed, bad bool) {
		b.send(Client, call2Of(1, 1))
		b.send(Server, words(1, 2, 1, rdmaError, 1, 1, 1))
		b.send(Client, pick(bad, call2Of(2, 1), callOf(2, 1)))
	}},
}

var plantedCharacteristics = []planted{
	{"init.first", "of the client", Client, func(b *bed, bad bool) {
		if bad {
			b.exchange2(1)
		}
		b.send(Client, op2(2, 32, callDir, initOf()))
	}},
	{"init.first", "of the server", Server, func(b *bed, bad bool) {
		if bad {
			b.exchange2(1)
		}
		b.send(Server, op2(2, 32, replyDir, initOf()))
	}},
	{"init.size", "", Server, func(b *bed, bad bool) {
		b.send(Client, op2(1, 32, callDir, initOf()))
		b.send(Server, op2(1, 32, replyDir, initOf(char(0xffffff01, make([]byte, pick(bad, 1024, 900))))))
	}},
	{"init.nochg", "UPDATE", Server, func(b *bed, bad bool) {
		b.send(Client, op2(1, 32, callDir, initOf()))
		b.send(Server, op2(1, 32, replyDir, &goxdr.Optinit_xch{
			Optixch_start: goxdr.Xcharset{char(charSize, 4096), char(charRequests, 4)}, Optixch_nochg: []uint32{2},
		}))
		b.send(Server, op2(2, 32, replyDir, updateOf(char(charSize, 8192), char(charRequests, pick(bad, 3, 4)))))
	}},
	{"init.nochg", "RESPOND", Server, func(b *bed, bad bool) {
		b.send(Client, op2(1, 32, callDir, initOf()))
		b.send(Server, op2(1, 32, replyDir, &goxdr.Optinit_xch{Optixch_start: goxdr.Xcharset{char(charSize, 4096)}, Optixch_nochg: []uint32{1}}))
		b.send(Client, op2(2, 32, callDir, requestOf(char(charSize, 2048))))
		b.send(Server, op2(2, 32, replyDir, pick(bad, respondOf(1, 0), respondOf(0, 1))))
	}},
	{"respond.unmatched", "", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, requestOf()))
		b.send(Server, op2(pick(bad, 3, 2), 32, replyDir, respondOf(0, 0)))
	}},
	{"respond.unmatched", "of the client", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Server, op2(2, 32, replyDir, requestOf()))
		b.send(Client, op2(pick(bad, 3, 2), 32, callDir, respondOf(0, 0)))
	}},
	{"respond.kind", "MSG", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, requestOf()))
		b.send(Server, pick(bad, reply2Of(2, 32), error2(2, 32, 3)))
	}},
	{"respond.kind", "XMTRESP", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, op2(2, 32, callDir, requestOf()))
		b.send(Server, pick(bad, response(2), op2(2, 32, replyDir, respondOf(0, 0))))
	}},
	{"respond.subsets", "both", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, requestOf(char(charSize, 8192), char(charRequests, 2))))
		b.send(Server, op2(2, 32, replyDir, respondOf(1, pick[uint32](bad, 3, 2))))
	}},
	{"respond.subsets", "neither", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, requestOf(char(charSize, 8192), char(charRequests, 2))))
		b.send(Server, op2(2, 32, replyDir, respondOf(1, pick[uint32](bad, 0, 2))))
	}},
	{"characteristic.malformed", "size", Client, func(b *bed, bad bool) {
		b.send(Client, op2(1, 32, callDir, initOf(char(charSize, pick(bad, words(1, 2), nil)))))
	}},
	{"characteristic.malformed", "bool", Client, func(b *bed, bad bool) {
		b.send(Client, op2(1, 32, callDir, initOf(char(charInvalidate, pick(bad, 2, 1)))))
	}},
	{"characteristic.malformed", "backward support", Client, func(b *bed, bad bool) {
		b.send(Client, op2(1, 32, callDir, initOf(char(charBackward, pick(bad, 3, 2)))))
	}},
	{"characteristic.malformed", "structure", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Server, op2(1, 32, replyDir, updateOf(char(charStructure, pick(bad, 5121, 5120), 2, 1, 1024, 0, 0, 1, 4096, 4096, 1))))
	}},
	{"characteristic.malformed", "REQUEST", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, requestOf(char(charRequests, pick(bad, words(1, 1), words(1))))))
	}},
	{"characteristic.malformed", "others", Client, func(b *bed, bad bool) {
		bytes := pick(bad, words(1, 1), words(1))
		b.send(Client, op2(1, 32, callDir, initOf(char(charRTR, bytes), char(charResponses, bytes), char(99, 1, 2, 3))))
	}},
	{"characteristic.lowered", "UPDATE", Server, func(b *bed, bad bool) {
		b.told2(nil, []goxdr.Xcharval{char(charSize, 8192)})
		b.send(Server, op2(2, 32, replyDir, updateOf(char(charSize, pick(bad, 8191, 8192)))))
	}},
	{"characteristic.lowered", "further than asked", Server, func(b *bed, bad bool) {
		b.told2(nil, []goxdr.Xcharval{char(charSize, 8192)})
		b.send(Client, op2(2, 32, callDir, requestOf(char(charSize, 5000))))
		b.send(Server, op2(2, 32, replyDir, respondOf(0, 1, char(charSize, pick(bad, 4999, 6000)))))
	}},
	{"characteristic.asked", "", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, requestOf(char(charSize, 2048))))
		b.send(Client, v2(3, 32, msg, callDir, lists{}, append(null(3), make([]byte, pick(bad, 2048, 1024))...)))
		b.send(Server, op2(2, 32, replyDir, respondOf(1, 0)))
		b.send(Client, v2(4, 32, msg, callDir, lists{}, append(null(4), make([]byte, pick(bad, 2048, 1024))...)))
	}},
	{"characteristic.asked", "rejected", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, requestOf(char(charSize, 2048))))
		if !bad {
			b.send(Server, op2(2, 32, replyDir, respondOf(0, 1)))
		}
		b.send(Client, v2(3, 32, msg, callDir, lists{}, append(null(3), make([]byte, 2048)...)))
	}},
	{"backward.none", "", Server, func(b *bed, bad bool) {
		b.told2([]goxdr.Xcharval{char(charBackward, pick(bad, 0, 1))}, nil)
		b.known2(Server)
		b.send(Server, call2Of(7, 1))
	}},
	{"backward.inline", "read chunk", Server, func(b *bed, bad bool) {
		b.told2([]goxdr.Xcharval{char(charBackward, pick(bad, 1, 2))}, nil)
		b.known2(Server)
		b.send(Server, v2(7, 1, msg, callDir, lists{reads: []rd{{40, seg{7, 8, 0}}}}, null(7)))
	}},
	{"backward.inline", "reply chunk of an XMTREQ", Server, func(b *bed, bad bool) {
		b.told2(append(able[:3:3], char(charBackward, pick(bad, 1, 2))), able)
		b.known2(Server)
		b.send(Server, request2{count: 1, repch: []seg{{8, 100, 0}}}.bytes(7))
	}},
}

// known2 makes a side answer the last message of the other.
func (b *bed) known2(s Side) {
	const xid = 900
	b.send(s.Peer(), call2Of(xid, 32))
	b.send(s, reply2Of(xid, 32))
}

// plantedShared breaks rules of version 1 with means that only version 2 has.
var plantedShared = []planted{
	{"size.threshold", "4096 without more", Client, func(b *bed, bad bool) {
		b.r.Connect(Private{})
		b.exchange2(1)
		b.send(Client, v2(2, 32, msg, callDir, lists{}, append(null(2), make([]byte, pick(bad, 4096-68, 4096-72))...)))
	}},
	{"size.threshold", "characteristic 1", Client, func(b *bed, bad bool) {
		b.told2(nil, []goxdr.Xcharval{char(charSize, pick(bad, 5000, 6000))})
		b.send(Client, v2(2, 32, msg, callDir, lists{}, append(null(2), make([]byte, 5500)...)))
	}},
	{"size.threshold", "from the structure", Client, func(b *bed, bad bool) {
		b.told2(nil, []goxdr.Xcharval{structure(pick(bad, 1, 2))})
		b.send(Client, v2(2, 32, msg, callDir, lists{}, append(null(2), make([]byte, 5500)...)))
	}},
	{"size.threshold", "private data no longer counts", Server, func(b *bed, bad bool) {
		b.r.Connect(Private{Client: private(1, 7, 7), Server: private(1, 7, 7)})
		if bad {
			b.told2([]goxdr.Xcharval{char(charSize, 4096)}, nil)
			b.known2(Server)
		} else {
			b.exchange2(1)
		}
		b.send(Client, call2Of(2, 32))
		b.send(Server, v2(2, 32, msg, replyDir, lists{}, append(rpcReplyBytes(2), make([]byte, 5500)...)))
	}},
	{"size.threshold", "lowered, and the grant shows that it is known", Client, func(b *bed, bad bool) {
		b.send(Client, op2(1, 1, callDir, initOf()))
		b.send(Server, op2(1, 1, replyDir, initOf(char(charSize, 8192))))
		b.send(Client, op2(2, 1, callDir, requestOf(char(charSize, 4096))))
		b.send(Client, call2Of(3, 1))
		b.send(Server, op2(2, 1, replyDir, respondOf(0, 1, char(charSize, 5000))))
		b.send(Server, reply2Of(3, 1))
		if bad { // the only credit came back after the update
			b.send(Client, call2Of(4, 1))
			b.send(Server, reply2Of(4, 1))
		}
		b.send(Client, op2(5, 1, callDir, updateOf(char(0xffffff01, make([]byte, 6000)))))
	}},
	{"credit.exceeded", "by a group", Client, func(b *bed, bad bool) {
		b.send(Client, call2Of(1, 32))
		b.send(Server, op2(9, 1, replyDir, updateOf(able...)))
		b.send(Server, v2(1, pick(bad, 2, 3), msg, replyDir, lists{}, rpcReplyBytes(1)))
		b.group(Client, 2, 3)
	}},
	{"credit.exceeded", "groups in flight", Client, func(b *bed, bad bool) {
		b.send(Client, call2Of(1, 32))
		b.send(Server, op2(9, 1, replyDir, updateOf(able...)))
		b.send(Server, v2(1, 6, msg, replyDir, lists{}, rpcReplyBytes(1)))
		b.group(Client, 2, 3)
		b.group(Client, 3, 3)
		if !bad {
			b.send(Server, response(2))
		}
		b.group(Client, 4, 3)
	}},
	{"credit.request", "", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, op2(1, pick(bad, 0, 1), callDir, request2{count: 1}.body(40), null(1)))
	}},
	{"header.nomsg", "call", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, v2(2, 32, nomsg, callDir, lists{reads: pick(bad, nil, []rd{{0, seg{7, 40, 0}}})}, nil))
	}},
	{"xid.reused", "REQUEST", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, call2Of(2, 32))
		b.send(Client, op2(pick(bad, 2, 3), 32, callDir, requestOf()))
	}},
	{"xid.mismatch", "group", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, op2(1, 32, callDir, request2{count: 2}.body(20), null(pick(bad, 2, 1))[:20]))
		b.send(Client, cont(1, callDir, 1, opXmtReq, 20, null(1)[20:]))
	}},
	{"rpc.header", "group", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, op2(1, 32, callDir, request2{count: 2}.body(20), null(1)[:20]))
		n := pick(bad, 16, 20)
		b.send(Client, cont(1, callDir, 1, opXmtReq, n, null(1)[20:20+n]))
	}},
	{"rpc.header", "empty group", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, pick(bad, op2(1, 32, callDir, request2{count: 1}.body(0)), request2{count: 1}.bytes(1)))
	}},
	{"rpc.header", "short", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, v2(2, 32, msg, callDir, lists{}, null(2)[:pick(bad, 4, 40)]))
	}},
	{"ddp.ineligible", "item of a group", Client, func(b *bed, bad bool) {
		b.targets2()
		b.known2(Client)
		text := rpcCallBytes(1, nfsProgram, 3, nfs3Write, 4, 9, uint64(0), 8, 2, 8) // handle, offset, count, stable, length
		first := op2(1, 32, callDir, request2{count: 1, items: []goxdr.Xmddp_mitem{tbsn(pick(bad, len(text)-4, len(text)), 8, 0, 0)}}.body(len(text)), text)
		b.send(Client, append(first, make([]byte, 1024+8-len(first))...))
	}},
	{"reply.unknown", "XMTRESP", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1}.bytes(1))
		b.send(Server, response(pick(bad, 2, 1)))
	}},
	{"reply.unknown", "ERROR", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, updateOf()))
		b.send(Server, error2(pick(bad, 3, 2), 32, 2))
	}},
	{"reply.twice", "after XMTERR", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.group(Client, 1, 2)
		if bad {
			b.send(Server, xmtError(1, replyDir, id(1, callDir, 1), goxdr.OPTXERR_BADCONT))
		}
		b.send(Server, response(1))
	}},
	{"error.version", "", Server, func(b *bed, bad bool) {
		b.send(Client, call2Of(1, 1))
		b.send(Server, error2(1, 1, 1, 1, pick(bad, 2, 1)))
	}},
	{"header.error-range", "", Server, func(b *bed, bad bool) {
		b.send(Client, call2Of(1, 1))
		b.send(Server, error2(1, 1, 1, pick(bad, 4, 3), 3))
	}},
	{"invalidate.not-agreed", "characteristic 2", Server, func(b *bed, bad bool) {
		b.told2([]goxdr.Xcharval{char(charInvalidate, pick(bad, 0, 1))}, nil)
		b.known2(Server)
		b.send(Client, v2(1, 32, msg, callDir, lists{writes: [][]seg{{{7, 8, 0}}}}, null(1)))
		b.sendInvalidate(Server, 7, v2(1, 32, msg, replyDir, lists{writes: [][]seg{{{7, 0, 0}}}}, rpcReplyBytes(1)))
	}},
	{"invalidate.foreign", "of a group", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 100, 0}))
		b.sendInvalidate(Server, pick[uint32](bad, 9, 8), response(1, item(0, 0, goxdr.XMDTYPE_NOITEM)))
	}},
	{"invalidate.not-reply", "XMTREQ", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		if bad {
			b.sendInvalidate(Client, 8, request2{count: 1}.bytes(1))
		} else {
			b.send(Client, request2{count: 1}.bytes(1))
		}
	}},
	{"invalidate.not-reply", "XMTCONT of a request", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 2}.bytes(1))
		b.sendOr(bad, Client, empty(1, callDir, 1, opXmtReq))
	}},
	{"invalidate.not-reply", "error", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.send(Client, op2(2, 32, callDir, updateOf(char(charSize, 512))))
		b.got = nil // the update is another matter
		b.sendOr(bad, Server, error2(2, 32, 2))
	}},
	{"invalidate.not-reply", "UPDATE", Server, func(b *bed, bad bool) {
		b.exchange2(1)
		b.sendOr(bad, Server, op2(5, 32, replyDir, updateOf()))
	}},
	{"invalidate.not-reply", "XMTERR", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1}.bytes(1))
		b.sendOr(bad, Server, xmtError(1, replyDir, id(1, callDir, 0), goxdr.OPTXERR_BADPL, 41, 0, 40))
	}},
	{"invalidate.not-reply", "an operation of a requester that nobody knows", Client, func(b *bed, bad bool) {
		b.exchange2(1)
		b.sendOr(bad, Client, option2(2, 32, callDir, 77, nil, nil))
	}},
	{"chunk.targets", "directions", Client, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, directions: []goxdr.Xmddp_rsdset{over(0, 40,
			direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 100, 0}), direct(goxdr.XMDTYPE_CHOICE, 0, 0, seg{8, 100, pick(bad, 99, 100)}))}}.bytes(1))
	}},
	{"memory.rights", "item of a group", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, items: []goxdr.Xmddp_mitem{exrw(40, 8, seg{7, 8, 0})}}.bytes(1))
		if bad {
			b.write(Server, 7, 0, make([]byte, 8))
		} else {
			b.read(Server, 7, 0, make([]byte, 8))
		}
	}},
	{"memory.stale", "direction", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 100, 0}))
		if !bad {
			b.write(Server, 8, 0, make([]byte, 8))
		}
		b.send(Server, response(1, item(0, 0, goxdr.XMDTYPE_TOOSHORT)))
		if bad {
			b.write(Server, 8, 0, make([]byte, 8))
		}
	}},
	{"returned.reply", "of a group", Server, func(b *bed, bad bool) {
		b.told2(able, able)
		b.send(Client, request2{count: 1, repch: []seg{{8, 100, 0}}}.bytes(1))
		b.write(Server, 8, 0, rpcReplyBytes(1))
		b.send(Server, v2(1, 32, nomsg, replyDir, lists{reply: []seg{{pick(bad, 9, 8), 24, 0}}}, nil))
	}},
	{"returned.writes", "directions", Server, func(b *bed, bad bool) {
		b.directs(direct(goxdr.XMDTYPE_TBSN, 0, 0), direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 100, 0}))
		b.write(Server, 8, 0, make([]byte, 100))
		b.send(Server, v2(1, 32, msg, replyDir, lists{writes: [][]seg{{{pick(bad, 9, 8), 100, 0}}}}, rpcReplyBytes(1)))
	}},
}

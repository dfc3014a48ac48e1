package referee

var plantedHeaders = []planted{
	{"header.short", "", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1)[:pick(bad, 12, 80)])
	}},
	{"header.malformed", "procedure", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, pick(bad, 9, msg), lists{}, null(1)))
	}},
	{"header.malformed", "list", Client, func(b *bed, bad bool) {
		b.send(Client, words(1, 1, 1, msg, pick(bad, 2, 0), 0, 0, null(1)))
	}},
	{"header.malformed", "count", Client, func(b *bed, bad bool) {
		b.send(Client, words(1, 1, 1, msg, 0, 1, pick(bad, 1<<30, 0), 0, 0, null(1)))
	}},
	{"header.malformed", "error code", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, words(1, 1, 1, rdmaError, pick(bad, 7, 2)))
	}},
	{"header.trailing", "error", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, words(1, 1, 1, rdmaError, 2, pick(bad, make([]byte, 4), nil)))
	}},
	{"header.trailing", "nomsg", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, nomsg, lists{reads: []rd{{0, seg{7, 48, 0}}}}, pick(bad, make([]byte, 4), nil)))
	}},
	{"header.empty", "", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{}, pick(bad, nil, null(1))))
	}},
	{"header.nomsg", "call", Client, func(b *bed, bad bool) {
		reads := pick(bad, nil, []rd{{0, seg{7, 48, 0}}})
		b.send(Client, v1(1, 1, nomsg, lists{reads: reads, reply: []seg{{8, 100, 0}}}, nil))
	}},
	{"header.nomsg", "reply", Server, func(b *bed, bad bool) {
		n := pick(bad, 0, 24)
		b.send(Client, v1(1, 1, msg, lists{reply: []seg{{8, 100, 0}}}, null(1)))
		b.write(Server, 8, 0, rpcReplyBytes(1))
		b.send(Server, v1(1, 1, nomsg, lists{reply: []seg{{8, n, 0}}}, nil))
	}},
	{"header.error-range", "", Server, func(b *bed, bad bool) {
		b.send(Client, words(1, 3, 1, msg, 0, 0, 0, null(1)))
		b.send(Server, words(1, 3, 1, rdmaError, 1, pick(bad, 2, 1), 1))
	}},
	{"header.version", "", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, replyOf(1, 1))
		// A message of version 2 is kept as a call of its version.
		b.r.open(b.r.dirs[Client], &call{xid: 2, vers: pick(bad, uint32(2), 1), units: 1})
		b.send(Server, replyOf(2, 1))
	}},
	{"size.threshold", "of the client", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{}, append(null(1), make([]byte, pick(bad, 4096, 4096-28-40))...)))
	}},
	{"size.threshold", "default", Client, func(b *bed, bad bool) {
		b.r.Connect(Private{Client: private(0, 3, 3)})
		b.send(Client, v1(1, 1, msg, lists{}, append(null(1), make([]byte, pick(bad, 1024, 1024-28-40))...)))
	}},
	{"size.threshold", "the smaller", Server, func(b *bed, bad bool) {
		b.r.Connect(Private{Client: private(0, 9, 1), Server: private(0, 9, 9)})
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{}, append(rpcReplyBytes(1), make([]byte, pick(bad, 2048, 1900))...)))
	}},
	{"private.flags", "", Server, func(b *bed, bad bool) {
		b.r.Connect(Private{Client: private(1, 3, 3), Server: private(pick[byte](bad, 3, 1), 3, 3)})
	}},
	{"xid.mismatch", "call", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{}, null(pick(bad, 2, 1))))
	}},
	{"xid.mismatch", "reply in a chunk", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{reply: []seg{{8, 100, 0}}}, null(1)))
		b.write(Server, 8, 0, rpcReplyBytes(pick(bad, 2, 1)))
		b.send(Server, v1(1, 1, nomsg, lists{reply: []seg{{8, 24, 0}}}, nil))
	}},
	{"xid.mismatch", "long call", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, nomsg, lists{reads: []rd{{0, seg{7, 40, 0}}}}, nil))
		b.read(Server, 7, 0, null(pick(bad, 2, 1)))
		b.send(Server, replyOf(1, 1))
	}},
	{"xid.mismatch", "long call, refused", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, nomsg, lists{reads: []rd{{0, seg{7, 40, 0}}}}, nil))
		b.read(Server, 7, 0, null(pick(bad, 2, 1)))
		b.send(Server, words(1, 1, 1, rdmaError, 2))
	}},
	{"rpc.header", "long call without one", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, nomsg, lists{reads: []rd{{0, seg{7, pick(bad, 4, 40), 0}}}}, nil))
		b.send(Server, words(1, 1, 1, rdmaError, 2))
	}},
	{"rpc.header", "long call, cut", Client, func(b *bed, bad bool) {
		n := pick(bad, 36, 40)
		b.send(Client, v1(1, 1, nomsg, lists{reads: []rd{{0, seg{7, n, 0}}}}, nil))
		b.read(Server, 7, 0, null(1)[:n])
		b.send(Server, words(1, 1, 1, rdmaError, 2))
	}},
	{"rpc.header", "version", Client, func(b *bed, bad bool) {
		call := null(1)
		call[11] = pick[byte](bad, 3, 2)
		b.send(Client, v1(1, 1, msg, lists{}, call))
	}},
	{"rpc.header", "msg_type", Client, func(b *bed, bad bool) {
		call := null(1)
		call[7] = pick[byte](bad, 2, 0)
		b.send(Client, v1(1, 1, msg, lists{}, call))
	}},
	{"rpc.header", "credential", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{}, words(1, 0, 2, 0x20020049, 1, 0, 1, pick(bad, 404, 400), make([]byte, 404), 0, 0)))
	}},
	{"rpc.header", "reply", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{}, words(1, 1, pick(bad, 5, 0), 0, 0, 0)))
	}},
	{"rpc.direction", "long call", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, nomsg, lists{reads: []rd{{0, seg{7, 40, 0}}}}, nil))
		b.read(Server, 7, 0, pick(bad, append(rpcReplyBytes(1), make([]byte, 16)...), null(1)))
		b.send(Server, replyOf(1, 1))
	}},
	{"msgp.align", "", Client, func(b *bed, bad bool) {
		b.send(Client, words(1, 1, 1, msgp, pick(bad, 0, 512), 512, 0, 0, 0, null(1)))
	}},
	{"iwarp.after-terminate", "", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.event(Event{Kind: pick(bad, Terminate, Close), From: Server})
		b.send(Server, replyOf(1, 1))
	}},
}

var plantedCalls = []planted{
	{"xid.reused", "", Client, func(b *bed, bad bool) {
		b.exchange(1)
		b.send(Client, callOf(2, 32))
		b.send(Client, callOf(pick(bad, 2, 3), 32))
	}},
	{"reply.unknown", "", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, replyOf(pick(bad, 2, 1), 1))
	}},
	{"reply.unknown", "error", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, words(pick(bad, 2, 1), 1, 1, rdmaError, 2))
	}},
	{"reply.twice", "", Server, func(b *bed, bad bool) {
		b.exchange(1)
		b.send(Client, callOf(2, 1))
		b.send(Server, replyOf(pick(bad, 1, 2), 1))
	}},
	{"error.answered", "", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, words(1, 1, 1, rdmaError, 2))
		if bad {
			b.send(Client, words(1, 1, 1, rdmaError, 2))
		}
	}},
	{"error.code", "version", Server, func(b *bed, bad bool) {
		b.send(Client, words(1, 3, 1, msg, 0, 0, 0, null(1)))
		b.send(Server, words(1, 3, 1, rdmaError, pick(bad, words(2), words(1, 1, 1))))
	}},
	{"error.version", "", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, words(1, 1, 1, rdmaError, 1, pick(bad, 1, 2), 2))
	}},
	{"credit.exceeded", "before a grant", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 32))
		if !bad {
			b.send(Server, replyOf(1, 32))
		}
		b.send(Client, callOf(2, 32))
	}},
	{"credit.exceeded", "beyond a grant", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(0, 32))
		b.send(Server, replyOf(0, 4))
		for xid := range pick(bad, 5, 4) {
			b.send(Client, callOf(xid+1, 32))
		}
	}},
	{"credit.exceeded", "lowered", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(0, 32))
		b.send(Server, replyOf(0, 4))
		for xid := range 4 {
			b.send(Client, callOf(xid+1, 32))
		}
		b.send(Server, replyOf(1, 1)) // 3 in flight, 1 granted
		b.send(Server, replyOf(2, 1))
		b.send(Server, replyOf(3, 1))
		b.send(Server, replyOf(4, 1))
		b.send(Client, callOf(10, 32)) // all replies but one may be on their way
		if bad {
			b.send(Client, callOf(11, 32))
			b.send(Client, callOf(12, 32))
			b.send(Client, callOf(13, 32))
			b.send(Client, callOf(14, 32))
		}
	}},
	{"credit.exceeded", "reverse", Server, func(b *bed, bad bool) {
		b.exchange(1)
		b.send(Server, callOf(1, 2))
		if !bad {
			b.send(Client, replyOf(1, 2))
		}
		b.send(Server, callOf(2, 2))
	}},
	{"credit.zero", "", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, replyOf(1, pick(bad, 0, 1)))
	}},
	{"credit.request", "", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, pick(bad, 0, 1)))
	}},
	{"done.unexpected", "", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{reads: pick(bad, nil, []rd{{24, seg{9, 400, 0}}})}, rpcReplyBytes(1)))
		b.send(Client, words(1, 1, 1, done))
	}},
	{"done.unexpected", "twice", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{reads: []rd{{24, seg{9, 400, 0}}}}, rpcReplyBytes(1)))
		b.send(Client, words(1, 1, 1, done))
		if bad {
			b.send(Client, words(1, 1, 1, done))
		}
	}},
	{"done.early", "", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{reads: []rd{{24, seg{9, 400, 0}}}}, rpcReplyBytes(1)))
		b.event(Event{Kind: Read, From: Client, STag: 9, Length: 400})
		if !bad {
			b.event(Event{Kind: ReadDone, From: Client})
		}
		b.send(Client, words(1, 1, 1, done))
	}},
	{"invalidate.not-agreed", "", Server, func(b *bed, bad bool) {
		b.r.Connect(Private{Client: private(1, 3, 3), Server: private(pick[byte](bad, 0, 1), 3, 3)})
		l := lists{reply: []seg{{8, 0, 0}}}
		b.send(Client, v1(1, 1, msg, lists{reply: []seg{{8, 100, 0}}}, null(1)))
		b.sendInvalidate(Server, 8, v1(1, 1, msg, l, rpcReplyBytes(1)))
	}},
	{"invalidate.not-reply", "error", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{reply: []seg{{8, 100, 0}}}, null(1)))
		if bad {
			b.sendInvalidate(Server, 8, words(1, 1, 1, rdmaError, 2))
		} else {
			b.send(Server, words(1, 1, 1, rdmaError, 2))
		}
	}},
	{"invalidate.not-reply", "DONE", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{reads: []rd{{24, seg{7, 8, 0}}}}, rpcReplyBytes(1)))
		b.sendOr(bad, Client, words(1, 1, 1, done))
	}},
	{"invalidate.foreign", "", Server, func(b *bed, bad bool) {
		b.exchange(1)
		b.send(Client, v1(2, 1, msg, lists{reply: []seg{{8, 100, 0}}}, null(2)))
		b.send(Client, v1(3, 1, msg, lists{reply: []seg{{9, 100, 0}}}, null(3)))
		b.sendInvalidate(Server, pick[uint32](bad, 9, 8), v1(2, 1, msg, lists{reply: []seg{{8, 0, 0}}}, rpcReplyBytes(2)))
	}},
	{"invalidate.shared", "", Server, func(b *bed, bad bool) {
		b.exchange(1)
		for xid := 2; xid < 4; xid++ {
			b.send(Client, v1(xid, 1, msg, lists{writes: [][]seg{{{xid, 101, 0}, {99, 4, 0}}}}, null(xid)))
		}
		b.sendInvalidate(Server, pick[uint32](bad, 99, 3), v1(3, 1, msg, lists{writes: [][]seg{{{3, 0, 0}, {99, 0, 0}}}}, rpcReplyBytes(3)))
	}},
}

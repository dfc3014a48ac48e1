package referee

import (
	"bytes"

	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv3"
	"github.com/buildbarn/go-xdr/pkg/protocols/nfsv4"
)

// withReads returns a call of an unknown program with 200 bytes of arguments.
func withReads(xid, proc int, reads ...rd) []byte {
	var payload []byte
	if proc != nomsg {
		payload = rpcCallBytes(xid, 0x20020049, 1, 7, make([]byte, 200))
	}
	return v1(xid, 1, proc, lists{reads: reads}, payload)
}

var plantedChunks = []planted{
	{"chunk.position", "", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{pick(bad, 41, 40), seg{7, 100, 0}}))
	}},
	{"chunk.order", "", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{pick(bad, 240, 40), seg{7, 100, 0}}, rd{140, seg{8, 100, 0}}))
	}},
	{"chunk.order", "a chunk in two places", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{40, seg{7, 100, 0}}, rd{140, seg{8, 100, 0}}, rd{pick(bad, 40, 140), seg{9, 100, 0}}))
	}},
	{"chunk.beyond", "", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{pick(bad, 244, 240), seg{7, 100, 0}}))
	}},
	{"chunk.beyond", "a long call", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, nomsg, rd{0, seg{7, 100, 0}}, rd{pick(bad, 104, 100), seg{8, 100, 0}}))
	}},
	{"chunk.beyond", "behind another", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{40, seg{7, 101, 0}}, rd{pick(bad, 348, 344), seg{8, 100, 0}}))
	}},
	{"chunk.overlap", "", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{40, seg{7, 100, 0}}, rd{pick(bad, 136, 140), seg{8, 100, 0}}))
	}},
	{"chunk.position-zero", "", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, pick(bad, msg, nomsg), rd{0, seg{7, 100, 0}}))
	}},
	{"chunk.position-zero", "reply", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{reads: []rd{{pick(bad, 0, 24), seg{7, 4, 0}}}}, rpcReplyBytes(1)))
	}},
	{"chunk.wraps", "reply", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{reads: []rd{{24, seg{7, pick(bad, 4, 1), -1}}}}, rpcReplyBytes(1)))
	}},
	{"chunk.position-zero", "not first", Client, func(b *bed, bad bool) {
		if bad {
			b.send(Client, withReads(1, msg, rd{40, seg{8, 100, 0}}, rd{0, seg{7, 100, 0}}))
		} else {
			b.send(Client, withReads(1, nomsg, rd{0, seg{7, 100, 0}}, rd{40, seg{8, 100, 0}}))
		}
	}},
	{"chunk.wraps", "", Client, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{40, seg{7, pick(bad, 101, 100), -100}}))
	}},
	{"chunk.targets", "", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}, reply: []seg{{7, 100, pick(bad, 99, 100)}}}, null(1)))
	}},
	{"returned.writes", "missing", Server, func(b *bed, bad bool) {
		l := lists{writes: [][]seg{{{7, 0, 0}}}}
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}}, null(1)))
		b.send(Server, v1(1, 1, msg, pick(bad, lists{}, l), rpcReplyBytes(1)))
	}},
	{"returned.writes", "another STag", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}}, null(1)))
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{pick(bad, 8, 7), 0, 0}}}}, rpcReplyBytes(1)))
	}},
	{"returned.reply", "not offered", Server, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{reply: pick(bad, []seg{{7, 0, 0}}, nil)}, rpcReplyBytes(1)))
	}},
	{"returned.reply", "segments", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{reply: []seg{{7, 100, 0}, {8, 100, 0}}}, null(1)))
		b.send(Server, v1(1, 1, msg, lists{reply: []seg{{7, 0, 0}, {8, 0, 0}}[:pick(bad, 1, 2)]}, rpcReplyBytes(1)))
	}},
	{"returned.length", "", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}}, null(1)))
		b.write(Server, 7, 0, make([]byte, 100))
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, pick(bad, 104, 100), 0}}}}, rpcReplyBytes(1)))
	}},
	{"returned.gap", "", Server, func(b *bed, bad bool) {
		n := pick(bad, 96, 100)
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}, {8, 100, 0}}}}, null(1)))
		b.write(Server, 7, 0, make([]byte, n))
		b.write(Server, 8, 0, make([]byte, 4))
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, n, 0}, {8, 4, 0}}}}, rpcReplyBytes(1)))
	}},
	{"returned.unwritten", "", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}}, null(1)))
		b.write(Server, 7, 50, make([]byte, 50))
		if !bad {
			b.write(Server, 7, 0, make([]byte, 50))
		}
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}}, rpcReplyBytes(1)))
	}},
	{"returned.unwritten", "roundup counted", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}}, null(1)))
		b.write(Server, 7, 0, make([]byte, pick(bad, 96, 97)))
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}}, rpcReplyBytes(1)))
	}},
	{"returned.inline", "", Server, func(b *bed, bad bool) {
		n := pick(bad, 24, 0)
		b.send(Client, v1(1, 1, msg, lists{reply: []seg{{7, 100, 0}}}, null(1)))
		b.write(Server, 7, 0, rpcReplyBytes(1))
		b.send(Server, v1(1, 1, msg, lists{reply: []seg{{7, n, 0}}}, rpcReplyBytes(1)))
	}},
}

var plantedMemory = []planted{
	{"memory.unknown", "", Server, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{40, seg{7, 100, 0}}))
		b.read(Server, pick[uint32](bad, 8, 7), 0, make([]byte, 100))
	}},
	{"memory.stale", "write", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}}}, null(1)))
		if bad {
			b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, 0, 0}}}}, rpcReplyBytes(1)))
		}
		b.write(Server, 7, 0, make([]byte, 10))
	}},
	{"memory.stale", "after DONE", Client, func(b *bed, bad bool) {
		b.send(Client, callOf(1, 1))
		b.send(Server, v1(1, 1, msg, lists{reads: []rd{{24, seg{9, 400, 0}}}}, rpcReplyBytes(1)))
		if bad {
			b.send(Client, words(1, 1, 1, done))
		}
		b.read(Client, 9, 0, make([]byte, 400))
	}},
	{"memory.range", "", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 5000}}}}, null(1)))
		b.write(Server, 7, 5000+40, make([]byte, pick(bad, 61, 60)))
	}},
	{"memory.range", "across two segments", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 5000}, {7, 100, pick(bad, 5104, 5100)}}}}, null(1)))
		b.write(Server, 7, 5000, make([]byte, 150))
	}},
	{"memory.rights", "", Server, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{40, seg{7, 100, 0}}))
		if bad {
			b.write(Server, 7, 0, make([]byte, 100))
		} else {
			b.read(Server, 7, 0, make([]byte, 100))
		}
	}},
	{"memory.unfinished", "", Server, func(b *bed, bad bool) {
		b.send(Client, withReads(1, msg, rd{40, seg{7, 100, 0}}))
		b.event(Event{Kind: Read, From: Server, STag: 7, Length: 100})
		if !bad {
			b.event(Event{Kind: ReadDone, From: Server})
		}
		b.send(Server, replyOf(1, 1))
	}},
}

var handle3 = nfsv3.NfsFh3{Data: []byte("some file handle")}

// write3 returns a WRITE whose n bytes are in a chunk.
func write3(n int) []byte {
	return rpcCallBytes(1, nfsProgram, 3, nfs3Write, encoded(&handle3), uint64(0), n, 2, n)
}

// read3 returns the reply to a READ of n bytes.
func read3(n int, inline []byte) []byte {
	return rpcReplyBytes(1, 0, 0, n, 0, n, inline)
}

// compound returns a COMPOUND call.
func compound(minor, ops int, args ...any) []byte {
	return rpcCallBytes(1, nfsProgram, 4, nfs4Compound, 0, minor, ops, words(args...))
}

func create(flags uint32) []byte {
	var attrs nfsv4.ChannelAttrs4
	return encoded(&nfsv4.NfsArgop4_OP_CREATE_SESSION{OpcreateSession: nfsv4.CreateSession4args{
		CsaFlags: flags, CsaForeChanAttrs: attrs, CsaBackChanAttrs: attrs, CsaCbProgram: 0x40000000,
	}})
}

func (b *bed) readCall(chunks ...[]seg) {
	b.send(Client, v1(1, 1, msg, lists{writes: chunks}, rpcCallBytes(1, nfsProgram, 3, nfs3Read, encoded(&handle3), uint64(0), 100)))
}

var write4 = words(38, make([]byte, 16), uint64(0), 2)

var plantedReduced = []planted{
	{"ddp.ineligible", "within the RPC header", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{reads: []rd{{pick(bad, 36, 40), seg{7, 4, 0}}}}, null(1)))
		b.send(Server, pick(bad, words(1, 1, 1, rdmaError, 2), replyOf(1, 1)))
	}},
	{"ddp.ineligible", "NFSv3 WRITE", Client, func(b *bed, bad bool) {
		args := write3(100)
		b.send(Client, v1(1, 1, msg, lists{reads: []rd{{len(args) - pick(bad, 4, 0), seg{7, 100, 0}}}}, args))
	}},
	{"ddp.ineligible", "NFSv3 LOOKUP", Client, func(b *bed, bad bool) {
		args := rpcCallBytes(1, nfsProgram, 3, 3, encoded(&nfsv3.Diropargs3{Dir: handle3, Name: "a"}))
		reads := []rd{{len(args), seg{7, 100, 0}}}
		b.send(Client, v1(1, 1, msg, lists{reads: pick(bad, reads, nil)}, args))
	}},
	{"ddp.ineligible", "NFSv3 SYMLINK", Client, func(b *bed, bad bool) {
		none := symlinkAttributes()
		args := rpcCallBytes(1, nfsProgram, 3, nfs3Symlink, encoded(&nfsv3.Diropargs3{Dir: handle3, Name: "a"}), encoded(&none), 1000)
		b.send(Client, v1(1, 1, msg, lists{reads: []rd{{len(args) - pick(bad, 8, 0), seg{7, 1000, 0}}}}, args))
	}},
	{"ddp.ineligible", "NFSv4 WRITE", Client, func(b *bed, bad bool) {
		args := compound(0, 3, 24, write4, 1001, 9, 0)
		at := len(args) - 8
		b.send(Client, v1(1, 1, msg, lists{reads: []rd{{at + pick(bad, 4, 0), seg{7, 1001, 0}}}}, args))
	}},
	{"ddp.ineligible", "NFSv4, second WRITE", Client, func(b *bed, bad bool) {
		args := compound(0, 2, write4, 1001, write4, 500)
		first := len(args) - len(write4) - 4
		second := len(args) + 1004
		b.send(Client, v1(1, 1, msg, lists{reads: []rd{{first, seg{7, 1001, 0}}, {second - pick(bad, 8, 0), seg{8, 500, 0}}}}, args))
	}},
	{"ddp.ineligible", "NFSv4 CREATE", Client, func(b *bed, bad bool) {
		args := compound(0, 1, 6, pick(bad, 2, 5), pick(bad, nil, words(1000)), 1, []byte("a\000\000\000"), 0, 0)
		at := len(args) - 16
		b.send(Client, v1(1, 1, msg, lists{reads: []rd{{at, seg{7, 1000, 0}}}}, args))
	}},
	{"ddp.length", "argument", Client, func(b *bed, bad bool) {
		args := write3(100)
		b.send(Client, v1(1, 1, msg, lists{reads: []rd{{len(args), seg{7, 60, 0}}, {len(args), seg{8, pick(bad, 36, 40), 0}}}}, args))
	}},
	{"ddp.length", "result", Server, func(b *bed, bad bool) {
		b.readCall([]seg{{7, 200, 0}})
		b.write(Server, 7, 0, make([]byte, 99))
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, 99, 0}}}}, read3(pick(bad, 90, 99), nil)))
	}},
	{"ddp.result-inline", "", Server, func(b *bed, bad bool) {
		b.readCall([]seg{{7, pick(bad, 200, 80), 0}}, []seg{{8, 200, 0}})
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, 0, 0}}, {{8, 0, 0}}}}, read3(100, make([]byte, 100))))
	}},
	{"ddp.result-order", "", Server, func(b *bed, bad bool) {
		b.readCall([]seg{{7, 10, 0}}, []seg{{8, 200, 0}})
		b.write(Server, 8, 0, make([]byte, 100))
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, 0, 0}}, {{8, pick(bad, 100, 0), 0}}}}, read3(100, make([]byte, 100))))
	}},
	{"ddp.pad-inline", "", Server, func(b *bed, bad bool) {
		b.readCall([]seg{{7, 200, 0}})
		b.write(Server, 7, 0, make([]byte, 99))
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, 99, 0}}}}, read3(99, pick(bad, make([]byte, 1), nil))))
	}},
	{"ddp.result-inline", "NFSv4, the first of two READs", Server, func(b *bed, bad bool) {
		read := words(25, make([]byte, 16), uint64(0), 100)
		b.send(Client, v1(1, 1, msg, lists{writes: [][]seg{{{7, 100, 0}}, {{8, 5000, 0}}}}, compound(0, 2, read, read)))
		b.write(Server, 8, 0, make([]byte, 5000))
		first := pick(bad, make([]byte, 100), nil)
		if !bad {
			b.write(Server, 7, 0, make([]byte, 100))
		}
		b.send(Server, v1(1, 1, msg, lists{writes: [][]seg{{{7, pick(bad, 0, 100), 0}}, {{8, 5000, 0}}}},
			rpcReplyBytes(1, 0, 0, 2, 25, 0, 0, 100, first, 25, 0, 1, 5000)))
	}},
	{"ddp.protected", "", Client, func(b *bed, bad bool) {
		cred := words(6, 20, 1, 0, 5, pick(bad, 2, 1), 0)
		args := words(1, 0, 2, 0x20020049, 1, 7, cred, 0, 0, 100)
		b.send(Client, v1(1, 1, msg, lists{reads: []rd{{len(args), seg{7, 100, 0}}}}, args))
	}},
	{"error.code", "SUCCESS", Server, func(b *bed, bad bool) {
		b.r.open(b.r.dirs[Client], &call{xid: 1, vers: 1, fault: pick(bad, faultHeader, faultNone)})
		b.send(Server, replyOf(1, 1))
	}},
}

func symlinkAttributes() nfsv3.Sattr3 {
	var s nfsv3.Sattr3
	if _, err := s.ReadFrom(bytes.NewReader(make([]byte, 24))); err != nil {
		panic(err)
	}
	return s
}

var plantedUpper = []planted{
	{"backchannel.early", "NULL before CREATE_SESSION", Server, func(b *bed, bad bool) {
		session := create(pick[uint32](bad, 0, nfsv4.CREATE_SESSION4_FLAG_CONN_BACK_CHAN))
		b.send(Client, v1(1, 1, msg, lists{}, compound(1, 1, session)))
		b.send(Server, v1(9, 1, msg, lists{}, rpcCallBytes(9, 0x40000000, 1, 0)))
	}},
	{"backchannel.early", "BIND_CONN_TO_SESSION", Server, func(b *bed, bad bool) {
		bind := encoded(&nfsv4.NfsArgop4_OP_BIND_CONN_TO_SESSION{OpbindConnToSession: nfsv4.BindConnToSession4args{
			BctsaDir: pick(bad, nfsv4.CDFC4_FORE, nfsv4.CDFC4_BACK),
		}})
		b.send(Client, v1(1, 1, msg, lists{}, compound(1, 1, bind)))
		b.send(Server, v1(9, 1, msg, lists{}, rpcCallBytes(9, 0x40000000, 1, 0)))
	}},
	{"ccp.form", "arguments", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{}, rpcCallBytes(1, ccpProgram, 1, 1, 1024, 1024, 4, pick(bad, words(1), nil))))
	}},
	{"ccp.form", "results", Server, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{}, rpcCallBytes(1, ccpProgram, 1, 1, 1024, 1024, 4)))
		b.send(Server, v1(1, 1, msg, lists{}, rpcReplyBytes(1, 1024, 0, pick(bad, nil, words(4)))))
	}},
	{"ccp.reads", "", Client, func(b *bed, bad bool) {
		b.send(Client, v1(1, 1, msg, lists{}, rpcCallBytes(1, ccpProgram, 1, 1, 1024, 1024, 4)))
		b.send(Server, v1(1, 1, msg, lists{}, rpcReplyBytes(1, 1024, 0, pick(bad, 0, 4))))
		b.send(Client, withReads(2, msg, rd{40, seg{7, 100, 0}}))
	}},
}

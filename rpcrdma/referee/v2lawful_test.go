package referee

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

// TestLawful2 plays conversations that look odd and break no rule.
func TestLawful2(t *testing.T) {
	for _, c := range []struct {
		name string
		play func(b *bed)
	}{
		{"version 1 after ERR_VERS", func(b *bed) {
			b.send(Client, call2Of(1, 1))
			b.send(Server, words(1, 1, 1, rdmaError, 1, 1, 1)) // in a version that the server speaks
			b.exchange(2)
		}},
		{"both send INIT first, with XIDs of their own", func(b *bed) {
			b.send(Client, op2(1, 1, callDir, initOf()))
			b.send(Server, op2(1<<20, 1, callDir, initOf()))
			b.exchange2(2)
		}},
		{"what the server says in a version that the client does not speak agrees on nothing", func(b *bed) {
			b.send(Server, words(7, 0x30303030, 1, msg))
			b.send(Server, words(8, 1, 1, msg, 0, 0, 0, null(8)))
			b.exchange2(1)
		}},
		{"a first answer that can't be read chooses no version", func(b *bed) {
			b.send(Client, call2Of(1, 1))
			b.send(Server, v2(1, 1, 2, replyDir, lists{}, rpcReplyBytes(1)))
			b.got = nil // it has no known type, which is another matter
			b.exchange(2)
		}},
		{"characteristics that a receiver may refuse", func(b *bed) {
			b.told2(nil, []goxdr.Xcharval{char(charRTR, 7), char(charSize, 8192)})
			for i, x := range []struct {
				set    goxdr.Xcharval
				behind []byte
			}{
				{char(charRTR, 0), words(0)},
				{char(charSize, 8), nil},
				{char(charStructure, 1<<20, 1, 1, 1<<20, 0, 0), nil},
				{char(charStructure, 1<<20, 1, 1, 1<<19, 0, 0), nil},
			} {
				got := b.got // what it breaks is another matter
				b.send(Server, op2(50+i, 32, replyDir, updateOf(char(charRTR, 0), x.set), x.behind))
				b.got = got
				b.known2(Client)
				b.send(Client, request2{count: 1}.bytes(30+i)) // refuses it
				b.send(Server, response(30+i))
			}
			got := b.got
			b.send(Server, op2(60, 32, replyDir, updateOf(char(charRTR, 7)), words(0)))
			b.got = got
			b.known2(Client)
			b.send(Client, request2{count: 1}.bytes(40)) // takes it
		}},
		{"characteristics that a receiver may refuse, and others after them", func(b *bed) {
			b.told2(nil, []goxdr.Xcharval{char(charRTR, 0)})
			b.send(Server, op2(60, 32, replyDir, updateOf(char(charRTR, 7)), words(0)))
			b.got = nil // what it breaks is another matter
			b.send(Server, op2(61, 32, replyDir, updateOf(char(charInvalidate, 1))))
			b.known2(Client)
			b.send(Client, request2{count: 1}.bytes(40)) // has taken both
			b.send(Server, response(40))
		}},
		{"a RESPOND that can't be read that names a smaller size", func(b *bed) {
			b.told2(nil, []goxdr.Xcharval{char(charSize, 8192)})
			b.send(Client, op2(2, 32, callDir, requestOf(char(charSize, 4096))))
			b.send(Server, option2(2, 32, replyDir, opRespond, words(7), nil))
			b.got = nil
			b.send(Client, v2(3, 32, msg, callDir, lists{}, append(null(3), make([]byte, 8000)...)))
		}},
		{"a wrong answer to a REQUEST that names a smaller size", func(b *bed) {
			b.told2(nil, []goxdr.Xcharval{char(charSize, 8192)})
			b.send(Client, op2(2, 32, callDir, requestOf(char(charSize, 4096))))
			b.send(Server, reply2Of(2, 32))
			b.got = nil
			b.send(Client, v2(3, 32, msg, callDir, lists{}, append(null(3), make([]byte, 8000)...)))
		}},
		{"an XMTERR that can't be read may answer a call", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 1}.bytes(1))
			b.send(Server, option2(1, 33, replyDir, opXmtErr, words(7), nil))
			b.got = nil
			for xid := range 33 {
				b.send(Client, call2Of(100+xid, 33))
			}
		}},
		{"XMTRESP that calls gets an error", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 1}.bytes(1))
			b.send(Server, op2(1, 32, callDir, &goxdr.Optxmt_resp{Optxrs_count: 1}))
			b.got = nil
			b.send(Client, error2(1, 32, 3))
			b.exchange2(2)
		}},
		{"a reply in another version gets an error", func(b *bed) {
			b.exchange2(1)
			b.send(Client, v2(2, 32, msg, callDir, lists{reply: []seg{{8, 100, 0}}}, null(2)))
			b.write(Server, 8, 0, rpcReplyBytes(2))
			b.send(Server, v1(2, 32, nomsg, lists{reply: []seg{{8, 24, 0}}}, nil))
			b.got = nil
			b.send(Client, words(2, 1, 32, rdmaError, 1, 2, 2))
			b.exchange2(3)
		}},
		{"a RESPOND that can't be read", func(b *bed) {
			b.send(Client, call2Of(1, 32))
			b.send(Server, reply2Of(1, 1))
			b.send(Client, op2(2, 32, callDir, requestOf()))
			b.send(Server, option2(2, 32, replyDir, opRespond, words(7), nil))
			b.got = nil // which is another matter: it answers, and grants credits
			b.send(Client, call2Of(3, 32))
			b.send(Client, call2Of(4, 32))
		}},
		{"a client that answers calls in version 1 offers version 2", func(b *bed) {
			b.send(Server, callOf(7, 1))
			b.send(Client, replyOf(7, 1))
			b.send(Server, callOf(8, 1))
			b.send(Client, call2Of(1, 1))
			b.send(Client, replyOf(8, 1))
			b.send(Server, error2(1, 1, 1, 1, 1))
			b.exchange(2)
		}},
		{"INIT that the server does not take", func(b *bed) {
			b.send(Client, op2(1, 1, callDir, initOf()))
			b.send(Server, error2(1, 1, 3))
			b.exchange2(2)
		}},
		{"INIT that the server does not take has told it nothing", func(b *bed) {
			told := []goxdr.Xcharval{char(charBackward, 0), char(charRTR, 0), char(charSize, 1024)}
			b.send(Client, op2(1, 1, callDir, &goxdr.Optinit_xch{Optixch_start: told, Optixch_nochg: []uint32{7}}))
			b.send(Server, error2(1, 1, 3))
			b.exchange2(2)
			b.send(Server, call2Of(3, 1))
			b.send(Client, call2Of(4, 1))
			b.send(Server, v2(4, 32, msg, replyDir, lists{}, append(rpcReplyBytes(4), make([]byte, 4000)...)))
			b.send(Client, op2(5, 32, callDir, updateOf(char(charRTR, 1))))
		}},
		{"a late INIT that the server does not take", func(b *bed) {
			b.told2([]goxdr.Xcharval{char(charSize, 8192)}, nil)
			b.exchange2(2)
			b.send(Client, op2(3, 32, callDir, initOf(char(charSize, 1024))))
			b.got = nil // it is not the first message, which is another matter
			b.send(Server, error2(3, 32, 2))
			b.exchange2(4)
			b.send(Client, call2Of(5, 32))
			b.send(Server, v2(5, 32, msg, replyDir, lists{}, append(rpcReplyBytes(5), make([]byte, 8000)...)))
		}},
		{"an operation of an extension that nobody knows", func(b *bed) {
			b.exchange2(1)
			b.send(Client, option2(2, 32, callDir, 1<<31, []byte("odd"), null(2)))
			b.send(Server, error2(2, 32, 3))
			b.send(Server, option2(2, 32, replyDir, 1<<31, nil, nil))
		}},
		{"a larger size is used at once", func(b *bed) {
			b.told2(nil, nil)
			b.send(Server, op2(9, 32, replyDir, updateOf(char(charSize, 65536))))
			b.send(Client, v2(2, 32, msg, callDir, lists{}, append(null(2), make([]byte, 60000)...)))
		}},
		{"a smaller size crosses a large message", func(b *bed) {
			b.told2([]goxdr.Xcharval{char(charSize, 8192)}, nil)
			b.send(Client, call2Of(2, 32))
			b.send(Server, op2(5, 32, callDir, requestOf(char(charSize, 4096)))) // from now on the server keeps to it
			b.send(Client, op2(5, 32, replyDir, respondOf(1, 0)))
			b.send(Server, reply2Of(2, 32))
			b.send(Client, op2(6, 32, callDir, updateOf(char(charSize, 8192)))) // and may send large messages again
			b.send(Client, call2Of(3, 32))
			b.send(Server, v2(3, 32, msg, replyDir, lists{}, append(rpcReplyBytes(3), make([]byte, 8000)...)))
		}},
		{"a structure that is withdrawn crosses a message laid out for it", func(b *bed) {
			b.targets2()
			b.send(Server, op2(5, 32, replyDir, updateOf(char(charStructure))))
			b.send(Client, placed2(1, 1, 9216, tbsn(40, 4, 0, 0)))
		}},
		{"support that is withdrawn crosses a request, which is answered", func(b *bed) {
			b.told2(able, able)
			b.send(Client, op2(2, 32, callDir, updateOf(char(charRTR, 0), char(charRequests, 1))))
			b.send(Client, request2{count: 1, rsbuf: 1}.bytes(1))
			b.send(Server, response2{count: 2}.bytes(1))
			b.send(Server, empty(1, replyDir, 1, opXmtResp))
			b.send(Server, op2(3, 32, replyDir, updateOf(char(charRTR, 0), char(charRequests, 1), char(charResponses, 1))))
			b.group(Client, 4, 4)
		}},
		{"groups of both sides, and of both directions of one", func(b *bed) {
			b.told2(able, able)
			b.exchangeBack(3)
			b.send(Client, request2{count: 2, rsbuf: 1}.bytes(1))
			b.send(Server, request2{count: 2, rsbuf: 1}.bytes(1))
			b.send(Client, empty(1, callDir, 1, opXmtReq))
			b.send(Server, empty(1, callDir, 1, opXmtReq))
			b.send(Server, response2{count: 2}.bytes(1))
			b.send(Client, response2{count: 2}.bytes(1))
			b.send(Client, empty(1, replyDir, 1, opXmtResp))
			b.send(Server, empty(1, replyDir, 1, opXmtResp))
		}},
		{"a request that is an error's and ends early", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 4}.bytes(1))
			b.send(Server, error2(1, 32, 2))
			b.send(Client, empty(1, callDir, 1, opXmtReq))
			b.exchange2(2)
		}},
		{"a request that is refused and goes on", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 3}.bytes(1))
			b.send(Server, xmtError(1, replyDir, id(1, callDir, 0), goxdr.OPTXERR_BADPL, 41, 0, 40))
			b.send(Client, empty(1, callDir, 1, opXmtReq))
			b.send(Client, empty(1, callDir, 2, opXmtReq))
			b.exchange2(2)
		}},
		{"a response that is refused", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 1, rsbuf: 2}.bytes(1))
			b.send(Server, response2{count: 3}.bytes(1))
			b.send(Client, xmtError(1, callDir, id(1, replyDir, 0), goxdr.OPTXERR_BADTBSN, 9, 0, 3))
			b.send(Server, empty(1, replyDir, 1, opXmtResp))
			b.exchange2(2)
		}},
		{"a request in transmissions answered in the old ways", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 1}.bytes(1))
			b.send(Server, reply2Of(1, 32))
			b.send(Client, request2{count: 1, repch: []seg{{8, 100, 0}}, directions: []goxdr.Xmddp_rsdset{
				over(0, 40, direct(goxdr.XMDTYPE_TBSN, 0, 0), direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{9, 64, 0}))}}.bytes(2))
			b.write(Server, 9, 0, make([]byte, 60))
			b.write(Server, 8, 0, rpcReplyBytes(2))
			b.send(Server, v2(2, 32, nomsg, replyDir, lists{writes: [][]seg{{{9, 60, 0}}}, reply: []seg{{8, 24, 0}}}, nil))
		}},
		{"each direction with each answer that it allows", func(b *bed) {
			b.told2(append(able[:3:3], char(charSize, 9216), structure(2)), able)
			all := []goxdr.Xmddp_rsditem{
				direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 64, 0}), direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{8, 64, 64}),
				direct(goxdr.XMDTYPE_TBSN, 0, 0), direct(goxdr.XMDTYPE_TBSN, 0, 0), direct(goxdr.XMDTYPE_TBSN, 0, 0),
				direct(goxdr.XMDTYPE_CHOICE, 0, 0, seg{8, 64, 128}), direct(goxdr.XMDTYPE_CHOICE, 0, 0, seg{8, 64, 192}),
				direct(goxdr.XMDTYPE_BYSIZE, 0, 16, seg{8, 64, 256}), direct(goxdr.XMDTYPE_BYSIZE, 0, 17, seg{8, 64, 320}),
			}
			b.send(Client, request2{count: 1, directions: []goxdr.Xmddp_rsdset{over(0, 20, all[:3]...), over(20, 40, all[3:]...)}}.bytes(1))
			b.write(Server, 8, 0, make([]byte, 12))
			b.write(Server, 8, 256, make([]byte, 16))
			b.send(Server, placedResponse(1, exrw(4, 12, seg{8, 12, 0}), item(0, 3, goxdr.XMDTYPE_TOOSHORT), tbsn(24, 10, 0, 0),
				item(0, 0, goxdr.XMDTYPE_NOITEM), item(0, 0, goxdr.XMDTYPE_TOOSHORT), tbsn(40, 8, 16, 0), item(0, 0, goxdr.XMDTYPE_NOITEM),
				exrw(52, 16, seg{8, 64, 256}), tbsn(72, 16, 4, 1)))
		}},
		{"XMTERR about an intruder, whose call goes on", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 2}.bytes(1))
			b.send(Client, call2Of(2, 32))
			b.got = nil // the message that interrupts the group is another matter
			bad := xmtError(1, replyDir, id(2, callDir, 0), goxdr.OPTXERR_BADHMT, 5, 0)
			b.send(Server, bad)
			b.send(Server, reply2Of(2, 32))
		}},
		{"UPDATE that the server refuses", func(b *bed) {
			b.exchange2(1)
			b.send(Client, op2(2, 32, callDir, updateOf(char(charSize, 512))))
			b.got = nil
			b.send(Server, error2(2, 32, 2))
		}},
		{"REQUEST in either direction and under any name", func(b *bed) {
			b.exchange2(1)
			b.send(Client, op2(7, 32, callDir, requestOf(char(charRequests, 9), char(0xffffff52, 3, 4))))
			b.send(Server, op2(7, 32, replyDir, requestOf()))
			b.send(Client, op2(7, 32, callDir, respondOf(0, 0)))
			b.send(Server, op2(7, 32, replyDir, respondOf(2, 1, char(charRequests, 2), char(77))))
			b.group(Client, 8, 2)
		}},
		{"REQUEST of a responder with the XID of its call", func(b *bed) {
			b.told2(able, able)
			b.exchangeBack(3)
			b.send(Server, call2Of(7, 32))
			b.send(Server, op2(7, 32, replyDir, requestOf()))
			b.send(Client, op2(7, 32, callDir, respondOf(0, 0)))
			b.send(Client, reply2Of(7, 32))
			b.send(Server, op2(8, 32, replyDir, requestOf(char(charSize, 4096))))
			b.send(Server, call2Of(8, 32))
			b.send(Client, reply2Of(8, 32))
			b.send(Client, op2(8, 32, callDir, respondOf(1, 0)))
			b.send(Server, call2Of(8, 32))
			b.send(Client, reply2Of(8, 32))
		}},
		{"a gap in everything", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 3, rsbuf: 1}.bytes(1))
			b.r.Gap()
			b.send(Client, empty(1, callDir, 2, opXmtReq))
			b.send(Server, op2(44, 32, replyDir, respondOf(1, 1)))
			b.send(Server, error2(44, 32, 3))
			b.send(Server, response2{count: 2}.bytes(45))
			b.send(Server, empty(45, replyDir, 1, opXmtResp))
			b.send(Client, xmtError(1, callDir, id(46, replyDir, 0), goxdr.OPTXERR_BADCONT))
			b.send(Client, placed2(47, 3, 9216, tbsn(40, 4, 0, 7)))
			b.send(Client, empty(47, callDir, 1, opXmtReq))
			b.send(Client, empty(47, callDir, 2, opXmtReq))
		}},
		{"segments that are longer than their item", func(b *bed) {
			b.told2(able, able)
			b.send(Client, request2{count: 1, items: []goxdr.Xmddp_mitem{exrw(40, 9, seg{7, 4, 0}, seg{8, 8, 0}, seg{9, 8, 0})}}.bytes(1))
			b.read(Server, 7, 0, make([]byte, 4))
			b.read(Server, 8, 0, make([]byte, 5))
			b.send(Server, response(1))
		}},
		{"a message of which the end is not known", func(b *bed) {
			b.told2(able, able)
			whole := request2{count: 1, items: []goxdr.Xmddp_mitem{exrw(40, 8, seg{7, 8, 0})}}.bytes(1)
			b.event(Event{Kind: Send, From: Client, Data: whole[:len(whole)-20], Length: len(whole)})
			b.event(Event{Kind: Send, From: Client, Data: whole[:40], Length: len(whole)})
			b.event(Event{Kind: Send, From: Client, Data: whole[:12], Length: len(whole)})
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, at := range []Vantage{FromAnywhere, FromClient, FromServer} {
				b := newBed(t, at)
				b.r.Connect(Private{Client: private(1, 3, 3), Server: private(1, 3, 3)})
				c.play(b)
				if len(b.got) > 0 || b.r.GivenUp() != "" {
					t.Errorf("seen from %d: %v %s", at, b.got, b.r.GivenUp())
				}
			}
		})
	}
}

// TestKnown2 plays a client that still acts on a withdrawn characteristic. The
// Referee reports it when the client's credits show that it must have received
// the withdrawal. At the client's end the Referee reports it after some
// messages, whatever the credits.
func TestKnown2(t *testing.T) {
	for _, c := range []struct {
		at      Vantage
		credits int
		found   bool
	}{
		{FromAnywhere, 32, true}, {FromClient, 32, true}, {FromServer, 32, true},
		{FromAnywhere, 1000, false}, {FromClient, 1000, true}, {FromServer, 1000, false},
	} {
		b := newBed(t, c.at)
		b.r.Connect(Private{Client: private(1, 3, 3), Server: private(1, 3, 3)})
		b.told2(able, able)
		b.send(Server, op2(5, c.credits, replyDir, updateOf()))
		b.send(Server, op2(5, c.credits, replyDir, updateOf(char(charRTR, 0))))
		for xid := range 3 * patience2 {
			b.send(Client, request2{count: 1}.bytes(xid))
			b.send(Server, v2(xid, c.credits, msg, replyDir, lists{}, rpcReplyBytes(xid)))
		}
		switch got := b.rules(); {
		case !c.found && len(got) > 0:
			t.Errorf("seen from %d with %d credits: %v", c.at, c.credits, b.got[0])
		case c.found && (len(got) != 1 || got[0] != "rtr.unsupported"):
			t.Errorf("seen from %d with %d credits: %v", c.at, c.credits, got)
		}
	}
}

package referee

import (
	"slices"
	"testing"
)

// TestKnowledge plays conversations that an observer can't fully know. The
// Referee must draw the right conclusion or be silent.
func TestKnowledge(t *testing.T) {
	for _, tc := range []struct {
		name string
		at   Vantage
		want []string
		play func(b *bed)
	}{
		{"sizes without a handshake", FromAnywhere, nil, func(b *bed) {
			b.r = New(b.r.cfg)
			b.send(Client, v1(1, 1, msg, lists{}, append(null(1), make([]byte, 10000)...)))
		}},
		{"private data of another version", FromAnywhere, []string{"size.threshold"}, func(b *bed) {
			other := private(1, 3, 3)
			other[4] = 2
			b.r.Connect(Private{Client: private(1, 3, 3), Server: other})
			b.send(Client, v1(1, 1, msg, lists{}, append(null(1), make([]byte, 1000)...)))
		}},
		{"a reply after a gap", FromAnywhere, nil, func(b *bed) {
			b.r.Gap()
			b.send(Server, replyOf(1, 1))
			b.send(Server, words(2, 1, 1, rdmaError, 2))
			b.send(Client, words(1, 1, 1, done))
			b.write(Server, 7, 0, make([]byte, 100))
		}},
		{"credits after a gap", FromAnywhere, nil, func(b *bed) {
			b.exchange(1)
			b.r.Gap()
			for xid := range 100 {
				b.send(Client, callOf(xid+10, 128))
			}
		}},
		{"a grant after a gap", FromAnywhere, []string{"credit.exceeded"}, func(b *bed) {
			b.r.Gap()
			b.send(Client, callOf(0, 16)) // there may be 16 in flight
			for xid := range 20 {
				b.send(Server, replyOf(xid, 2))
				b.send(Client, callOf(xid+1, 16))
			}
			for xid := range 30 {
				b.send(Client, callOf(xid+100, 16))
			}
		}},
		{"a call that is seen in part", FromAnywhere, nil, func(b *bed) {
			whole := v1(1, 1, msg, lists{reply: []seg{{7, 100, 0}}}, null(1))
			b.event(Event{Kind: Send, From: Client, Data: whole[:30], Length: len(whole)})
			b.write(Server, 7, 0, rpcReplyBytes(1))
			b.send(Server, v1(1, 1, nomsg, lists{reply: []seg{{7, 24, 0}}}, nil))
		}},
		{"a call without its arguments", FromAnywhere, nil, func(b *bed) {
			args := write3(100)
			whole := v1(1, 1, msg, lists{reads: []rd{{len(args), seg{7, 100, 0}}}}, args)
			b.event(Event{Kind: Send, From: Client, Data: whole[:len(whole)-20], Length: len(whole)})
			b.read(Server, 7, 0, make([]byte, 100))
			b.send(Server, replyOf(1, 1))
		}},
		{"RDMA Writes by the far side", FromClient, nil, func(b *bed) {
			b.send(Client, v1(1, 1, msg, lists{reply: []seg{{7, 100, 0}}}, null(1)))
			b.send(Server, v1(1, 1, nomsg, lists{reply: []seg{{7, 24, 0}}}, nil))
		}},
		{"RDMA Writes by the near side", FromServer, []string{"returned.unwritten"}, func(b *bed) {
			b.send(Client, v1(1, 1, msg, lists{reply: []seg{{7, 100, 0}}}, null(1)))
			b.send(Server, v1(1, 1, nomsg, lists{reply: []seg{{7, 24, 0}}}, nil))
		}},
		{"a long call to the client with the XID of a call in flight", FromAnywhere, nil, func(b *bed) {
			b.exchange(1)
			b.send(Client, callOf(5, 1))
			b.send(Server, v1(5, 200, nomsg, lists{reads: []rd{{0, seg{7, 40, 0}}}}, nil)) // 200 is no grant
			b.read(Client, 7, 0, null(5))
			b.send(Client, replyOf(5, 1))
			b.send(Server, replyOf(5, 1))
		}},
		{"neither call nor reply, in a chunk, with the XID of a call in flight", FromAnywhere, []string{"rpc.header"}, func(b *bed) {
			b.exchange(1)
			b.send(Client, callOf(5, 1))
			b.send(Server, v1(5, 1, nomsg, lists{reads: []rd{{0, seg{7, 40, 0}}}}, nil))
			neither := null(5)
			neither[7] = 7
			b.read(Client, 7, 0, neither)
			b.send(Client, words(5, 1, 1, rdmaError, 2))
			b.send(Server, replyOf(5, 1))
		}},
		{"what can't be read has the XID of a call in flight", FromAnywhere, []string{"header.malformed"}, func(b *bed) {
			b.exchange(1)
			b.send(Client, callOf(5, 1))
			b.send(Server, v1(5, 1, 9, lists{}, null(5)))
			b.send(Client, words(5, 1, 1, rdmaError, 2))
			b.send(Server, replyOf(5, 1))
		}},
		{"its credits are no grant", FromAnywhere, []string{"credit.exceeded"}, func(b *bed) {
			b.send(Client, callOf(1, 32))
			b.send(Server, v1(1, 200, msg, lists{}, null(1))) // a call
			b.send(Client, callOf(2, 32))
		}},
		{"a reply by read chunks", FromAnywhere, nil, func(b *bed) {
			b.send(Client, callOf(5, 1))
			b.send(Server, v1(5, 1, nomsg, lists{reads: []rd{{0, seg{7, 24, 0}}}}, nil))
			b.read(Client, 7, 0, rpcReplyBytes(5))
			b.send(Client, words(5, 1, 1, done))
			b.send(Client, callOf(6, 1))
		}},
		{"a reply by read chunks with the XID of a call of its sender", FromAnywhere, nil, func(b *bed) {
			b.exchange(1)
			b.send(Server, callOf(5, 1))
			b.send(Client, callOf(5, 1))
			b.send(Server, v1(5, 1, nomsg, lists{reads: []rd{{0, seg{7, 24, 0}}}}, nil))
			b.read(Client, 7, 0, rpcReplyBytes(5))
			b.send(Client, words(5, 1, 1, done))
			b.send(Client, replyOf(5, 1))
			b.send(Server, callOf(6, 1))
			b.send(Client, replyOf(6, 1))
		}},
		{"a reply by read chunks, twice acknowledged", FromAnywhere, []string{"done.unexpected"}, func(b *bed) {
			b.send(Client, callOf(5, 1))
			b.send(Server, v1(5, 1, nomsg, lists{reads: []rd{{0, seg{7, 24, 0}}}}, nil))
			b.read(Client, 7, 0, rpcReplyBytes(5))
			b.send(Client, words(5, 1, 1, done))
			b.send(Client, words(5, 1, 1, done))
		}},
		{"a reply by read chunks, which are not seen", FromServer, nil, func(b *bed) {
			for xid := range 3 * maxCalls {
				b.send(Client, callOf(xid, 1))
				b.send(Server, v1(xid, 1, nomsg, lists{reads: []rd{{0, seg{7, 24, 0}}}}, nil))
				b.send(Client, words(xid, 1, 1, done))
			}
		}},
		{"the same memory for several calls", FromAnywhere, nil, func(b *bed) {
			b.exchange(1)
			for xid := 2; xid < 5; xid++ {
				b.send(Client, withReads(xid, msg, rd{40, seg{7, 100, 0}}))
			}
			for range 3 {
				b.event(Event{Kind: Read, From: Server, STag: 7, Length: 100})
			}
			b.event(Event{Kind: ReadDone, From: Server})
			b.send(Server, replyOf(3, 4))
		}},
		{"a larger threshold by CCP", FromAnywhere, nil, func(b *bed) {
			b.r.Connect(Private{})
			b.send(Client, v1(1, 1, msg, lists{}, rpcCallBytes(1, ccpProgram, 1, 1, 8192, 8192, 4)))
			b.send(Server, v1(1, 1, msg, lists{}, rpcReplyBytes(1, 8192, 0, 4)))
			b.send(Client, v1(2, 1, msg, lists{}, append(null(2), make([]byte, 8000)...)))
			b.send(Server, v1(2, 1, msg, lists{}, append(rpcReplyBytes(2), make([]byte, 8000)...)))
		}},
		{"a callback without NFSv4", FromAnywhere, nil, func(b *bed) {
			b.exchange(1)
			b.send(Server, callOf(1, 1))
			b.send(Client, replyOf(1, 1))
		}},
		{"a callback after a call that can't be read", FromAnywhere, nil, func(b *bed) {
			b.send(Client, v1(1, 1, msg, lists{}, compound(1, 1, 99999)))
			b.send(Server, callOf(1, 1))
		}},
		{"MSG without the reply chunk that was offered", FromAnywhere, nil, func(b *bed) {
			b.send(Client, v1(1, 1, msg, lists{reply: []seg{{7, 100, 0}}}, null(1)))
			b.send(Server, replyOf(1, 1))
		}},
		{"a version that nobody speaks, to a server of version 2", FromAnywhere, nil, func(b *bed) {
			b.send(Client, words(1, 3, 1, msg, 0, 0, 0, null(1)))
			b.send(Server, words(1, 2, 1, rdmaError, 1, 1, 2))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, tc.at)
			b.r.Connect(Private{Client: private(1, 3, 3), Server: private(1, 3, 3)})
			tc.play(b)
			if got := b.rules(); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v: %v", got, tc.want, b.got)
			}
			if why := b.r.GivenUp(); why != "" {
				t.Error(why)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	b := connected(t)
	b.send(Client, callOf(1, 32))
	b.send(Server, replyOf(1, 16))
	b.readCall([]seg{{7, 100, 0}, {8, 100, 0}})
	b.send(Client, v1(2, 40, msg, lists{reply: []seg{{9, 100, 0}}}, null(2)))
	b.write(Server, 7, 0, make([]byte, 100))
	b.sendInvalidate(Server, 7, v1(1, 20, msg, lists{writes: [][]seg{{{7, 100, 0}, {8, 0, 0}}}}, read3(100, nil)))
	b.write(Server, 9, 0, rpcReplyBytes(2))
	b.send(Server, v1(2, 20, nomsg, lists{reply: []seg{{9, 24, 0}}}, nil))
	b.send(Server, v1(9, 4, msg, lists{}, null(9)))
	b.send(Client, words(9, 1, 3, rdmaError, 2))
	if len(b.got) > 0 {
		t.Fatal(b.got)
	}
	s := b.r.Summary()
	want := CallSummary{Calls: 3, Replies: 3, CreditsAsked: 40, CreditsGranted: 20, MostInFlight: 2}
	if s.Forward != want {
		t.Errorf("forward %+v, want %+v", s.Forward, want)
	}
	if s.Reverse.Calls != 1 || s.Reverse.CreditsAsked != 4 {
		t.Errorf("reverse %+v", s.Reverse)
	}
	if c := s.Client; c.Sends != 4 || c.STags != 3 || !c.Private.RemoteInvalidation || c.Private.SendSize != 4096 {
		t.Errorf("client %+v", c)
	}
	if c := s.Server; c.Sends != 4 || c.SendsWithInvalidate != 1 || c.Writes != 2 {
		t.Errorf("server %+v", c)
	}
	if !slices.Equal(s.Versions, []uint32{1}) || s.InlineAt[0] != (InlineAt{4096, 2}) {
		t.Errorf("%+v", s)
	}
}

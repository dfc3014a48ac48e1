package refereetest

import (
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/rpcrdma/referee"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/offheap/offheaptest"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m, offheaptest.Gate()) }

func eachProvider(t *testing.T, f func(t *testing.T, p rdmacm.Provider)) {
	t.Run("loopback", func(t *testing.T) { f(t, loopback.New(loopback.Config{})) })
	t.Run("softiwarp", func(t *testing.T) {
		p, err := softiwarp.New(softiwarp.Config{})
		ok(t, err)
		f(t, p)
	})
}

// exchanged makes one call, so that there is a grant.
func exchanged(c, s *peer) {
	c.says(null(1))
	s.hears()
	s.says(reply(1, nil, nil))
	c.hears()
}

// exchanged2 is exchanged for version 2.
func exchanged2(c, s *peer) {
	c.says(null2(1))
	s.hears()
	s.says(reply2(1))
	c.hears()
}

// greeted has both ends say what they are, in version 2.
func greeted(c, s *peer, client, server rpcrdma2.Set) {
	says(c, s, optional(1, rpcrdma2.Call, &rpcrdma2.Init{Start: client}, nil))
	says(s, c, optional(1, rpcrdma2.Reply, &rpcrdma2.Init{Start: server}, nil))
}

// says sends a message that the other end takes.
func says(from, to *peer, msg []byte) {
	from.says(msg)
	to.hears()
}

// plant is a conversation that breaks a rule.
type plant struct {
	rule string
	by   referee.Side
	do   func(c, s *peer)
}

// private is what the client tells when it connects.
func (p *plant) private() []byte {
	told := private(true)
	if p.rule == "private.flags" {
		told[5] |= 0x80
	}
	return told
}

// plants has one for each family of rules.
var plants = []plant{
	{"private.flags", referee.Client, func(c, s *peer) {}},
	{"header.short", referee.Client, func(c, s *peer) { says(c, s, []byte("short")) }},
	{"size.threshold", referee.Client, func(c, s *peer) { says(c, s, call(1, 0x20020049, 1, 1, make([]byte, 4096), nil)) }},
	{"xid.reused", referee.Client, func(c, s *peer) {
		exchanged(c, s)
		says(c, s, null(2))
		says(c, s, null(2))
	}},
	{"reply.unknown", referee.Server, func(c, s *peer) {
		exchanged(c, s)
		says(s, c, reply(77, nil, nil))
	}},
	{"error.answered", referee.Client, func(c, s *peer) {
		says(c, s, null(1))
		h := rpcrdma1.Header{XID: 1, Version: 1, Credits: 8, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrChunk}
		says(s, c, h.Append(nil))
		says(c, s, h.Append(nil))
	}},
	{"credit.exceeded", referee.Client, func(c, s *peer) {
		says(c, s, null(1))
		says(c, s, null(2))
	}},
	{"rpc.header", referee.Client, func(c, s *peer) {
		h := rpcrdma1.Header{XID: 1, Version: 1, Credits: 8}
		says(c, s, append(h.Append(nil), 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2))
	}},
	{"chunk.position", referee.Client, func(c, s *peer) {
		says(c, s, call(1, 100003, 3, 7, make([]byte, 64), func(h *rpcrdma1.Header) {
			h.Reads = []rpcrdma1.ReadSegment{{Position: 41, Segment: c.segment(4096)}}
		}))
	}},
	{"ddp.ineligible", referee.Client, func(c, s *peer) {
		says(c, s, call(1, 100003, 3, 1, make([]byte, 36), func(h *rpcrdma1.Header) {
			h.Reads = []rpcrdma1.ReadSegment{{Position: 44, Segment: c.segment(32)}}
		}))
	}},
	{"returned.unwritten", referee.Server, func(c, s *peer) {
		writes := []rpcrdma1.WriteChunk{{c.segment(4096)}}
		says(c, s, call(1, 0x20020049, 1, 2, []byte{0, 0, 16, 0}, func(h *rpcrdma1.Header) { h.Writes = writes }))
		s.writes(c.segment(4096), 100)
		says(s, c, reply(1, []byte{0, 0, 16, 0}, func(h *rpcrdma1.Header) { h.Writes = writes }))
	}},
	{"memory.unknown", referee.Server, func(c, s *peer) {
		says(c, s, null(1))
		s.writes(c.segment(100), 100)
	}},
	{"memory.rights", referee.Server, func(c, s *peer) {
		says(c, s, call(1, 0x20020049, 1, 2, []byte{0, 0, 16, 0}, func(h *rpcrdma1.Header) {
			h.Writes = []rpcrdma1.WriteChunk{{c.segment(4096)}}
		}))
		s.reads(c.segment(4096), 100)
	}},
	{"invalidate.foreign", referee.Server, func(c, s *peer) {
		says(c, s, null(1))
		key := c.window(100)
		s.post(verbs.SendWR{Op: verbs.OpSendInvalidate, InvalidateRKey: key}, copy(s.send.Bytes(), reply(1, nil, nil)), verbs.WCSend)
		c.hears()
	}},
	{"backchannel.early", referee.Server, func(c, s *peer) {
		says(c, s, call(1, 100003, 4, 0, nil, nil))
		says(s, c, reply(1, nil, nil))
		says(s, c, call(9, 0x40000000, 1, 0, nil, nil))
	}},
	{"msgp.align", referee.Client, func(c, s *peer) {
		says(c, s, call(1, 100003, 3, 0, nil, func(h *rpcrdma1.Header) { h.Proc, h.Align, h.Thresh = rpcrdma1.MsgP, 0, 512 }))
	}},
	{"done.unexpected", referee.Client, func(c, s *peer) {
		exchanged(c, s)
		says(c, s, call(1, 0, 0, 0, nil, func(h *rpcrdma1.Header) { h.Proc = rpcrdma1.Done }))
	}},
	{"version.first-alone", referee.Client, func(c, s *peer) {
		says(c, s, null2(1))
		says(c, s, null2(2))
	}},
	{"v2.direction", referee.Client, func(c, s *peer) {
		exchanged2(c, s)
		h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: 2, Version: 2, Credits: 8}, Direction: rpcrdma2.Reply}
		says(c, s, append(h.Append(nil), null(2)[28:]...))
	}},
	{"init.first", referee.Client, func(c, s *peer) {
		exchanged2(c, s)
		says(c, s, optional(2, rpcrdma2.Call, &rpcrdma2.Init{}, nil))
	}},
	{"respond.unmatched", referee.Server, func(c, s *peer) {
		exchanged2(c, s)
		says(s, c, optional(2, rpcrdma2.Reply, &rpcrdma2.Respond{}, nil))
	}},
	{"characteristic.malformed", referee.Client, func(c, s *peer) {
		says(c, s, optional(1, rpcrdma2.Call, &rpcrdma2.Init{Start: rpcrdma2.Set{{ID: rpcrdma2.CharReceiveSize, Data: []byte{1}}}}, nil))
	}},
	{"backward.none", referee.Server, func(c, s *peer) {
		greeted(c, s, rpcrdma2.Set{{ID: rpcrdma2.CharBackward, Data: []byte{0, 0, 0, 0}}}, nil)
		says(s, c, null2(9))
	}},
	{"rtr.unsupported", referee.Server, func(c, s *peer) {
		greeted(c, s, rpcrdma2.Set{{ID: rpcrdma2.CharRTR, Data: []byte{0, 0, 0, 1}}}, nil)
		exchanged2(c, s)
		says(c, s, null2(2))
		says(s, c, optional(2, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 1, PayloadLength: 24}, reply(2, nil, nil)[28:]))
	}},
	{"group.stray", referee.Client, func(c, s *peer) {
		exchanged2(c, s)
		says(c, s, optional(2, rpcrdma2.Call, &rpcrdma2.XmtCont{Number: 1, Initial: rpcrdma2.OptXmtReq}, nil))
	}},
	{"placement.request", referee.Client, func(c, s *peer) {
		exchanged2(c, s)
		says(c, s, optional(2, rpcrdma2.Call, &rpcrdma2.XmtReq{
			Count: 1, PayloadLength: 40, Items: []rpcrdma2.Item{{Place: rpcrdma2.NoItem}},
		}, null(2)[28:]))
	}},
	{"xmterr.unknown", referee.Server, func(c, s *peer) {
		exchanged2(c, s)
		says(s, c, optional(1, rpcrdma2.Reply, &rpcrdma2.XmtError{Bad: rpcrdma2.Transmission{XID: 9}, Code: rpcrdma2.BadContinuation}, nil))
	}},
	{"ccp.form", referee.Client, func(c, s *peer) { says(c, s, call(1, 100417, 1, 1, make([]byte, 8), nil)) }},
}

// TestEveryFamily: a conversation is planted for each family of rules, but for
// what a queue pair does not let through.
func TestEveryFamily(t *testing.T) {
	planted := map[string]bool{"iwarp": true} // nothing follows a Terminate
	family := func(rule string) string { name, _, _ := strings.Cut(rule, "."); return name }
	for _, p := range plants {
		planted[family(p.rule)] = true
	}
	for _, r := range referee.Rules() {
		if !planted[family(r.Name)] {
			t.Errorf("no rule like %s is planted", r.Name)
		}
	}
}

// window binds a window to memory of this end and gives its key.
func (p *peer) window(n int) uint32 {
	p.t.Helper()
	mw, err := p.pd.AllocMW()
	ok(p.t, err)
	p.t.Cleanup(func() { ok(p.t, mw.Close()) })
	_, err = p.qp.PostSend([]verbs.SendWR{{Op: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: verbs.BindInfo{
		MW: mw, MR: p.open, Length: n, Access: verbs.AccessRemoteRead,
	}}})
	ok(p.t, err)
	p.wait(verbs.WCBindMW)
	return mw.RKey()
}

// caught collects violations.
type caught struct {
	mu  sync.Mutex
	all []referee.Violation
	had string
}

func (c *caught) report(v referee.Violation, before string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, v)
	c.had = before
}

// TestPlanted: a violation of each family is seen at the end that makes it,
// and nothing else is.
func TestPlanted(t *testing.T) {
	for _, plant := range plants {
		t.Run(plant.rule, func(t *testing.T) {
			eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
				var got caught
				c, s := connect(t, Watch(p, got.report), plant.private(), private(true))
				plant.do(c, s)
				if len(got.all) == 0 || got.all[0].Rule != plant.rule || got.all[0].By != plant.by {
					t.Fatalf("seen: %v", got.all)
				}
				if plant.rule != "private.flags" && !strings.Contains(got.had, "Send, ") {
					t.Errorf("the connection's history is %q", got.had)
				}
			})
		})
	}
}

// TestSilent: a conversation with every operation, by the book.
func TestSilent(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		c, s := connect(t, Around(t, p), private(true), private(true))
		exchanged(c, s)
		reads := []rpcrdma1.ReadSegment{{Segment: c.segment(64)}}
		copy(c.open.Bytes(), call(2, 0x20020049, 1, 1, append([]byte{0, 0, 0, 20}, make([]byte, 20)...), nil)[28:])
		says(c, s, call(2, 0, 0, 0, nil, func(h *rpcrdma1.Header) { h.Proc, h.Reads = rpcrdma1.NoMsg, reads }))
		s.reads(c.segment(64), 64)
		says(s, c, reply(2, append([]byte{0, 0, 0, 20}, make([]byte, 20)...), nil))
		key := c.window(4096)
		writes := []rpcrdma1.WriteChunk{{{Handle: key, Length: 4096, Offset: c.open.Addr()}}}
		says(c, s, call(3, 0x20020049, 1, 0, nil, func(h *rpcrdma1.Header) { h.Writes = writes }))
		h := func(h *rpcrdma1.Header) { h.Writes = []rpcrdma1.WriteChunk{{{Handle: key, Offset: c.open.Addr()}}} }
		s.post(verbs.SendWR{Op: verbs.OpSendInvalidate, InvalidateRKey: key}, copy(s.send.Bytes(), reply(3, nil, h)), verbs.WCSend)
		c.hears()
	})
}

// TestPeersAreNotJudged: an end reports its own violations, and none of an end
// without a referee.
func TestPeersAreNotJudged(t *testing.T) {
	p := loopback.New(loopback.Config{})
	l, err := Around(t, p).Listen(t.Context(), "127.0.0.1:0")
	ok(t, err)
	defer l.Close()
	c := &peer{t: t}
	c.id, err = p.Resolve(t.Context(), l.Addr().String())
	ok(t, err)
	c.setUp()
	done := make(chan error, 1)
	go func() { done <- c.id.Connect(t.Context(), rdmacm.ConnParam{}) }()
	s := &peer{t: t}
	s.id, err = l.GetRequest(t.Context())
	ok(t, err)
	s.setUp()
	ok(t, s.id.Accept(t.Context(), rdmacm.ConnParam{}))
	ok(t, <-done)
	says(c, s, []byte("short"))
	c.close()
	s.close()
}

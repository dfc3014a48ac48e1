package rpcrdma_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/refereetest"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// liar is a server written on bare verbs, which answers as a test says.
type liar struct {
	*raw
	c       *rpcrdma.Client
	sources verbs.MR // what RDMA Writes come from
}

// newLiar connects a client to a server on bare verbs.
func newLiar(t testing.TB, p rdmacm.Provider, privateData []byte, s *rpcrdma.Settings) *liar {
	t.Helper()
	return newGreetingLiar(t, p, privateData, s, func(*liar) {})
}

// newGreetingLiar does the same for a client that makes calls while it
// connects, which greet answers.
func newGreetingLiar(t testing.TB, p rdmacm.Provider, privateData []byte, s *rpcrdma.Settings, greet func(*liar)) *liar {
	t.Helper()
	return newLiarTo(t, p, privateData, rpcrdma.DialConfig{Settings: s}, greet)
}

// newLiarTo does the same for any client.
func newLiarTo(t testing.TB, p rdmacm.Provider, privateData []byte, cfg rpcrdma.DialConfig, greet func(*liar)) *liar {
	t.Helper()
	return newLiarJudged(t, p, true, privateData, cfg, greet)
}

// newLiarJudged does the same with a referee around the client or without.
func newLiarJudged(t testing.TB, p rdmacm.Provider, judge bool, privateData []byte, cfg rpcrdma.DialConfig, greet func(*liar)) *liar {
	t.Helper()
	n := newFabric(t, p, judge)
	l := &liar{raw: &raw{t: t, ctx: n.ctx}}
	n.connect(l, privateData, cfg, func(l *liar) {
		l.sources = l.memory(1<<20, verbs.AccessLocalWrite)
		greet(l)
	})
	return l
}

// fabric is a provider on which clients connect to liars. Its end checks that nothing
// is left.
type fabric struct {
	ctx       context.Context
	p, judged rdmacm.Provider
	cm        rdmacm.Listener
}

func newFabric(t testing.TB, p rdmacm.Provider, judge bool) *fabric {
	t.Helper()
	n := &fabric{p: p, judged: p}
	if judge {
		n.judged = refereetest.Around(t, p)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	n.ctx = ctx
	var err error
	if n.cm, err = p.Listen(ctx, bedHost+":0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.cm.Close(); err != nil {
			t.Errorf("close listener: %v", err)
		}
		cancel()
		if err := p.Close(); err != nil {
			t.Errorf("close provider: %v", err)
		}
		if live := p.Device().(verbs.LiveCounter).Live(); live.Total() != 0 {
			t.Errorf("objects left: %+v", live)
		}
	})
	return n
}

// connect connects a client to l until the end of l's test. greet may answer calls
// that the client makes while it connects.
func (n *fabric) connect(l *liar, privateData []byte, cfg rpcrdma.DialConfig, greet func(*liar)) {
	l.t.Helper()
	cfg.Logger = slog.New(noErrors{slog.DiscardHandler, l.t})
	dialed := make(chan error, 1)
	go func() {
		c, err := rpcrdma.Dial(l.ctx, n.judged, n.cm.Addr().String(), cfg)
		l.c = c
		dialed <- err
	}()
	var err error
	l.id, err = n.cm.GetRequest(l.ctx)
	l.ok(err)
	l.setUp()
	l.ok(l.id.Accept(l.ctx, rdmacm.ConnParam{PrivateData: privateData, ResponderResources: 1, InitiatorDepth: 1}))
	greet(l)
	l.ok(<-dialed)
	l.t.Cleanup(func() {
		if err := l.c.Close(); err != nil {
			l.t.Errorf("close client: %v", err)
		}
		l.close()
	})
}

// next gives the header of the next call.
func (l *liar) next() (h rpcrdma1.Header) {
	l.t.Helper()
	l.take(&h)
	return h
}

// write places data into a segment and waits until it is there.
func (l *liar) write(to rpcrdma1.Segment, data []byte) {
	l.t.Helper()
	n := copy(l.sources.Bytes(), data)
	_, err := l.qp.PostSend([]verbs.SendWR{{
		Op: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, ID: 1 << 41, RemoteAddr: to.Offset, RKey: to.Handle,
		SGL: []verbs.SGE{{MR: l.sources, Length: n}},
	}})
	l.ok(err)
	if wc, ok := l.wait(func(wc verbs.WC) bool { return wc.ID == 1<<41 }); !ok {
		l.t.Fatalf("write: %v", wc.Status)
	}
}

// truth is the right answer to a call of 8000 bytes at most in the reply and
// 9001 apart.
func truth(call rpcrdma1.Header) (h rpcrdma1.Header, body []byte) {
	h = rpcrdma1.Header{XID: call.XID, Version: 1, Credits: 10000, Reply: slices.Clone(call.Reply), HasReply: call.HasReply}
	for _, w := range call.Writes {
		h.Writes = append(h.Writes, slices.Clone(w))
		h.Writes[len(h.Writes)-1][0].Length = 0
	}
	if h.HasReply {
		h.Reply[0].Length = 0
	}
	return h, oncrpc.AppendAcceptedReply(nil, call.XID)
}

func (l *liar) send(h rpcrdma1.Header, body []byte) {
	l.t.Helper()
	l.post(append(h.Append(nil), body...))
}

// honestly makes a call and answers it as it should be.
func (l *liar) honestly() error {
	l.t.Helper()
	call := newCall(procNull)
	answered := begin(func() error { return l.c.Call(l.ctx, &call) })
	h, body := truth(l.next())
	l.send(h, body)
	return <-answered
}

// TestLies: a reply that does not fit its call fails that call, and the client
// shows none of it. The connection goes on.
func TestLies(t *testing.T) {
	long := func(l *liar, call, h rpcrdma1.Header, msg []byte) {
		l.write(call.Reply[0], msg)
		h.Proc, h.Reply[0].Length = rpcrdma1.NoMsg, uint32(len(msg))
		l.send(h, nil)
	}
	lies := map[string]func(l *liar, call, h rpcrdma1.Header, body []byte){
		"no message":            func(l *liar, _, h rpcrdma1.Header, _ []byte) { l.send(h, nil) },
		"message cut short":     func(l *liar, _, h rpcrdma1.Header, body []byte) { l.send(h, body[:12]) },
		"verifier cut short":    func(l *liar, _, h rpcrdma1.Header, body []byte) { l.send(h, body[:20]) },
		"another XID":           func(l *liar, _, h rpcrdma1.Header, body []byte) { body[3]++; l.send(h, body) },
		"unknown message type":  func(l *liar, _, h rpcrdma1.Header, body []byte) { body[7] = 7; l.send(h, body) },
		"unknown reply status":  func(l *liar, _, h rpcrdma1.Header, body []byte) { body[11] = 7; l.send(h, body) },
		"unknown accept status": func(l *liar, _, h rpcrdma1.Header, body []byte) { body[23] = 99; l.send(h, body) },
		"long, cut short":       func(l *liar, call, h rpcrdma1.Header, body []byte) { long(l, call, h, body[:8]) },
		"long, another XID":     func(l *liar, call, h rpcrdma1.Header, body []byte) { body[3]++; long(l, call, h, body) },
		"long, no reply":        func(l *liar, call, h rpcrdma1.Header, _ []byte) { long(l, call, h, make([]byte, 8000)) },
		"long, nothing written": func(l *liar, _, h rpcrdma1.Header, _ []byte) { h.Proc = rpcrdma1.NoMsg; l.send(h, nil) },
		"long and inline":       func(l *liar, _, h rpcrdma1.Header, body []byte) { h.Reply[0].Length = 24; l.send(h, body) },
		"longer than the chunk": func(l *liar, call, h rpcrdma1.Header, _ []byte) {
			h.Proc, h.Reply[0].Length = rpcrdma1.NoMsg, call.Reply[0].Length+1
			l.send(h, nil)
		},
		"result too long":      func(l *liar, _, h rpcrdma1.Header, body []byte) { h.Writes[0][0].Length = 9005; l.send(h, body) },
		"result elsewhere":     func(l *liar, _, h rpcrdma1.Header, body []byte) { h.Writes[0][0].Offset++; l.send(h, body) },
		"result under another": func(l *liar, _, h rpcrdma1.Header, body []byte) { h.Writes[0][0].Handle++; l.send(h, body) },
		"a segment more": func(l *liar, _, h rpcrdma1.Header, body []byte) {
			h.Writes[0] = append(h.Writes[0], h.Reply[0])
			l.send(h, body)
		},
		"a write chunk more": func(l *liar, _, h rpcrdma1.Header, body []byte) {
			h.Writes = append(h.Writes, h.Writes[0])
			l.send(h, body)
		},
		"no write chunk": func(l *liar, _, h rpcrdma1.Header, body []byte) { h.Writes = nil; l.send(h, body) },
		"a read chunk": func(l *liar, _, h rpcrdma1.Header, body []byte) {
			h.Reads = []rpcrdma1.ReadSegment{{Segment: h.Reply[0]}}
			l.send(h, body)
		},
		"lists cut short":         func(l *liar, _, h rpcrdma1.Header, _ []byte) { l.post(h.Append(nil)[:24]) },
		"MSGP":                    func(l *liar, _, h rpcrdma1.Header, body []byte) { h.Proc = rpcrdma1.MsgP; l.send(h, body) },
		"unknown type":            func(l *liar, _, h rpcrdma1.Header, _ []byte) { b := h.Append(nil); b[15] = 9; l.post(b) },
		"error without its range": func(l *liar, _, h rpcrdma1.Header, _ []byte) { b := h.Append(nil)[:20]; b[15], b[19] = 4, 1; l.post(b) },
	}
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		l := newLiar(t, p, kernelPrivateData, nil)
		for name, lie := range lies {
			call := newCall(procRead)
			call.MaxReply = 8000
			call.Results = []rpcrdma.Result{{Buf: make(heapBuffer, 9004), Max: 9001}}
			failed := begin(func() error { return l.c.Call(l.ctx, &call) })
			h := l.next()
			answer, body := truth(h)
			lie(l, h, answer, body)
			if err := <-failed; !errors.Is(err, rpcrdma.ErrBadReply) || len(call.Reply) != 0 {
				t.Errorf("%s: %v, %d bytes", name, err, len(call.Reply))
			}
		}
		if s := l.c.Stats(); s.BadReplies != uint64(len(lies)) || s.Calls != s.BadReplies {
			t.Errorf("%d lies: %+v", len(lies), s)
		}
		should(t, l.honestly())
	})
}

// TestStrayReplies: replies that come late, twice or to nobody are dropped and
// counted; a grant of 10000 in them posts no receive too many.
func TestStrayReplies(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		l := newLiar(t, p, kernelPrivateData, nil)
		strays := uint64(0)
		for i := range 40 {
			call := newCall(procNull)
			ctx, cancel := context.WithCancel(l.ctx)
			failed := begin(func() error { return l.c.Call(ctx, &call) })
			h, body := truth(l.next())
			if i%2 == 0 {
				cancel()
				if err := <-failed; !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				strays++
			}
			l.send(h, body)
			l.send(h, body)
			h.XID += 1000
			l.send(h, body)
			strays += 2
			if i%2 == 1 {
				must(t, <-failed)
			}
			cancel()
		}
		// The strays before its answer have arrived when this call returns.
		must(t, l.honestly())
		if s, i := l.c.Stats(), l.c.Info(); s.BadXIDs != strays || s.Replies != 21 || i.CreditsGranted != 10000 {
			t.Errorf("%d strays: %+v, %+v", strays, s, i)
		}
	})
}

// TestInvalidatesAnother: a peer that invalidates memory which is not the
// answered call's loses the connection.
func TestInvalidatesAnother(t *testing.T) {
	l := newLiar(t, providers[0].make(t), kernelPrivateData, nil)
	l.ok(l.honestly())
	failed := make(chan error, 2)
	var calls [2]rpcrdma1.Header
	for i := range calls {
		call := newCall(procRead)
		call.MaxReply = 8000
		go func() { failed <- l.c.Call(l.ctx, &call) }()
		calls[i] = l.next()
	}
	l.sendInvalidating(calls[0], calls[1].Reply[0].Handle)
	for range calls {
		if err := <-failed; !errors.Is(err, rpcrdma.ErrInvalidated) {
			t.Errorf("%v", err)
		}
	}
}

// TestGivenUpInvalidatesAnother: so does one that does so in a late answer to a
// call that was given up.
func TestGivenUpInvalidatesAnother(t *testing.T) {
	l := newLiar(t, providers[0].make(t), kernelPrivateData, nil)
	l.ok(l.honestly())
	ctx, cancel := context.WithCancel(l.ctx)
	failed := begin(func() error { return plain(ctx, l.c, procNull) })
	given := l.next()
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	go func() {
		call := newCall(procRead)
		call.MaxReply = 8000
		failed <- l.c.Call(l.ctx, &call)
	}()
	l.sendInvalidating(given, l.next().Reply[0].Handle)
	if err := <-failed; !errors.Is(err, rpcrdma.ErrInvalidated) {
		t.Errorf("%v", err)
	}
}

// sendInvalidating answers a call and invalidates memory.
func (l *liar) sendInvalidating(call rpcrdma1.Header, rkey uint32) {
	l.t.Helper()
	h, body := truth(call)
	n := copy(l.raw.send.Bytes(), append(h.Append(nil), body...))
	_, err := l.qp.PostSend([]verbs.SendWR{{
		Op: verbs.OpSendInvalidate, InvalidateRKey: rkey, SGL: []verbs.SGE{{MR: l.raw.send, Length: n}},
	}})
	l.ok(err)
}

// FuzzReplies: whatever a server sends, calls return, no byte lies outside of
// the memory that they offered, and nothing is left.
func FuzzReplies(f *testing.F) {
	h := rpcrdma1.Header{Version: 1, Credits: 9, HasReply: true, Reply: rpcrdma1.WriteChunk{{Handle: 2, Length: 100}}, Writes: []rpcrdma1.WriteChunk{{{Handle: 1, Length: 50}}}}
	f.Add(uint8(0), oncrpc.AppendAcceptedReply(h.Append(nil), 0))
	h.Proc = rpcrdma1.NoMsg
	f.Add(uint8(0), append(h.Append(nil), 0xff, 0xff, 1, 2, 3))
	f.Add(uint8(0), binary.BigEndian.AppendUint64(nil, 1))
	h.Reads = []rpcrdma1.ReadSegment{{Segment: rpcrdma1.Segment{Handle: 3, Length: 200}}}
	f.Add(uint8(settings.ExtReadReplies), h.Append(nil))
	padded := rpcrdma1.Header{Version: 1, Credits: 9, Proc: rpcrdma1.MsgP, Align: 256, Thresh: 16}
	f.Add(uint8(settings.ExtMSGP), oncrpc.AppendAcceptedReply(padded.Append(nil), 0))
	fabrics := keep(f, newFuzzFabric)
	f.Fuzz(func(t *testing.T, extensions uint8, script []byte) {
		if len(script) > 4*rawSize {
			return
		}
		s := rpcrdma.DefaultSettings()
		// Version 2 is FuzzGroupReplies', and CCP makes a call of its own.
		s.Extensions = settings.Extensions(extensions) & (settings.ExtMSGP | settings.ExtReadReplies | settings.ExtBackchannel)
		l := fabrics.take(t).liar(t, &s)
		readable := l.memory(1<<16, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		over := l.beginRead(t)
		offered := l.next()
		for part := range bytes.SplitSeq(bytes.Clone(script), []byte{0xff, 0xff}) {
			// Let XID 0 mean the call's, handles 1 and 2 its memory, 3 ours.
			for i := 0; i+4 <= len(part); i += 4 {
				switch word := part[i : i+4]; {
				case binary.BigEndian.Uint32(word) == 0 && i == 0:
					binary.BigEndian.PutUint32(word, offered.XID)
				case i+16 > len(part):
				case binary.BigEndian.Uint32(word) == 1:
					binary.BigEndian.PutUint32(word, offered.Writes[0][0].Handle)
					binary.BigEndian.PutUint64(part[i+8:], offered.Writes[0][0].Offset)
				case binary.BigEndian.Uint32(word) == 3:
					binary.BigEndian.PutUint32(word, readable.RKey())
					binary.BigEndian.PutUint64(part[i+8:], readable.Addr())
				case binary.BigEndian.Uint32(word) == 2:
					binary.BigEndian.PutUint32(word, offered.Reply[0].Handle)
					binary.BigEndian.PutUint64(part[i+8:], offered.Reply[0].Offset)
				}
			}
			if l.qp.State() != verbs.QPRTS || len(part) > 4096 {
				break
			}
			l.post(part)
		}
		over()
	})
}

// beginRead begins a call that offers memory for a result. over ends the connection and checks how
// the call ended.
func (l *liar) beginRead(t *testing.T) (over func()) {
	call := newCall(procRead)
	call.MaxReply = 8000
	memory := make(heapBuffer, 9104)
	call.Results = []rpcrdma.Result{{Buf: memory[:9004], Max: 9001}}
	returned := begin(func() error { return l.c.Call(l.ctx, &call) })
	return func() {
		l.id.Disconnect()
		if err := <-returned; err == nil && call.Results[0].Apart > 9001 {
			t.Fatalf("%d bytes apart", call.Results[0].Apart)
		}
		if slices.ContainsFunc(memory[9004:], func(b byte) bool { return b != 0 }) {
			t.Fatal("written past the end")
		}
	}
}

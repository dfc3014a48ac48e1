package conn

import (
	"bytes"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func paddingText(o *Outgoing) string {
	if o.Padding.Align == 0 {
		return ""
	}
	return fmt.Sprintf(", opaques of %d padded to %d, from %d", o.Padding.Thresh, o.Padding.Align, o.Padding.Base)
}

// assemble makes the Send of a header and pieces from what they come from.
func assemble(h *Header, pieces []chunk.Piece, stream []byte, items [][]byte) []byte {
	b := h.Append(nil)
	for _, pc := range pieces {
		switch pc.From {
		case chunk.Stream:
			b = append(b, stream[pc.Off:pc.Off+pc.Len]...)
		case chunk.Zeros:
			b = append(b, make([]byte, pc.Len)...)
		default:
			b = append(b, items[pc.From][pc.Off:pc.Off+pc.Len]...)
		}
	}
	return b
}

// message is a message with opaque items among words, and where they go.
type message struct {
	stream []byte
	items  []chunk.Item
	data   [][]byte
	plain  []byte // as it would be without padding
}

// genMessage draws what follows an RPC header: words, then, each, an opaque
// that is an item, or stands in the stream, and more words.
func genMessage(t *rapid.T, header []byte) (m message) {
	words := func() {
		n := 4 * rapid.IntRange(0, 30).Draw(t, "words")
		m.stream = append(m.stream, bytes.Repeat([]byte{1}, n)...)
		m.plain = append(m.plain, bytes.Repeat([]byte{1}, n)...)
	}
	m.stream, m.plain = append(m.stream, header...), append(m.plain, header...)
	for i := range rapid.IntRange(1, 3).Draw(t, "opaques") {
		words()
		b := bytes.Repeat([]byte{byte(0xa0 + i)}, rapid.OneOf(rapid.IntRange(0, 40), rapid.IntRange(480, 3000)).Draw(t, "length"))
		m.stream = xdr.AppendUint32(m.stream, uint32(len(b)))
		m.plain = xdr.AppendOpaque(m.plain, b)
		m.items = append(m.items, chunk.Item{Pos: len(m.stream), Len: len(b)})
		m.data = append(m.data, b)
	}
	words()
	return m
}

// literal lays a message out as RFC 5666 §3.9 says: each opaque of thresh
// bytes and more at a multiple of align, counted from the start of the Send.
func (m *message) literal(base int, align, thresh uint32) (msg []byte, at []int) {
	off := 0
	for i, it := range m.items {
		msg, off = append(msg, m.stream[off:it.Pos]...), it.Pos
		if uint32(it.Len) >= thresh {
			for uint32(base+len(msg))%align != 0 {
				msg = append(msg, 0xee)
			}
		}
		at = append(at, len(msg))
		msg = xdr.AppendPad(append(msg, m.data[i]...), it.Len)
	}
	return append(msg, m.stream[off:]...), at
}

// unpad is what a service sees that reads every opaque with Payload.Opaque.
func (m *message) unpad(t *rapid.T, args *oncrpc.Payload, header int) []byte {
	d := xdr.NewDecoder(args.Stream)
	plain := append([]byte(nil), m.stream[:header]...)
	off := header
	for _, it := range m.items {
		plain = append(plain, d.Fixed(it.Pos-4-off)...)
		plain = xdr.AppendOpaque(plain, args.Opaque(&d, 1<<20))
		off = it.Pos
	}
	if d.Err() != nil {
		t.Fatal(d.Err())
	}
	return append(plain, d.Rest()...)
}

func withMSGP() settings.Settings {
	s := settings.Default()
	s.Extensions = settings.ExtMSGP
	s.DDPMinChunk = 1 << 20
	s.InlineSendMax, s.InlineReceiveSize = 16384, 16384
	return s
}

// padResponder is a responder that takes padded messages.
func padResponder() *Responder {
	s := withMSGP()
	r := NewResponder(ResponderConfig{PeerReceive: 16384, ToldSend: 16384, MaxTransfer: 1 << 20, MaxReceives: 100, Settings: &s})
	postCalls(r, r.Start(nil))
	return r
}

// delivered is the call that a message is, or nil.
func delivered(r *Responder, msg []byte) *Call {
	for _, a := range r.Receive(0, msg, nil) {
		switch a := a.(type) {
		case PostReceives:
			r.Posted(a.N, a.N)
		case Deliver:
			return a.Call
		}
	}
	return nil
}

// TestPaddedCallOfAnybody: whatever alignment and threshold a sender chooses,
// a service sees the message as if there were no padding.
func TestPaddedCallOfAnybody(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cred := oncrpc.Auth{Flavor: 1, Body: bytes.Repeat([]byte{9}, rapid.IntRange(0, 100).Draw(t, "credential"))}
		align := uint32(1) << rapid.IntRange(0, 16).Draw(t, "align")
		thresh := rapid.OneOf(rapid.Uint32Range(0, 2000), rapid.Uint32()).Draw(t, "thresh")
		h := rpcrdma1.Header{XID: 7, Version: 1, Credits: 1, Proc: rpcrdma1.MsgP, Align: align, Thresh: thresh}
		// The credential, too, is an opaque; the verifier is empty.
		head := message{stream: oncrpc.AppendCall(nil, &oncrpc.Call{XID: 7, Program: 1, Version: 1})}
		head.stream = append(xdr.AppendUint32(xdr.AppendUint32(head.stream[:24], 1), uint32(len(cred.Body))), make([]byte, 8)...)
		head.items = []chunk.Item{{Pos: 32, Len: len(cred.Body)}, {Pos: 40}}
		head.data = [][]byte{cred.Body, nil}
		m := genMessage(t, nil)
		n := len(head.stream)
		for i, it := range m.items {
			head.items = append(head.items, chunk.Item{Pos: n + it.Pos, Len: it.Len})
			head.data = append(head.data, m.data[i])
		}
		head.stream = append(head.stream, m.stream...)
		body, at := head.literal(h.Size(), align, thresh)
		c := delivered(padResponder(), append(h.Append(nil), body...))
		if c == nil {
			t.Fatal("not delivered")
		}
		if c.RPC.Cred.Flavor != 1 || !bytes.Equal(c.RPC.Cred.Body, cred.Body) {
			t.Fatalf("credential %+v", c.RPC.Cred)
		}
		if got := m.unpad(t, &c.RPC.Args, 0); !bytes.Equal(got, m.plain) {
			t.Fatalf("%x, want %x, items at %v", got, m.plain, at)
		}
	})
}

// checkAligned says what is wrong with a Send of ours that is padded: items
// that are not aligned, or a threshold that other opaques might reach.
func checkAligned(h *Header, pieces []chunk.Piece) error {
	off := h.Size()
	padded := false
	for _, pc := range pieces {
		switch {
		case pc.From == chunk.Stream && pc.Len >= int(h.Thresh):
			return fmt.Errorf("threshold %d, %d bytes of stream", h.Thresh, pc.Len)
		case pc.From >= 0 && pc.Len >= int(h.Thresh):
			if padded = true; off%int(h.Align) != 0 {
				return fmt.Errorf("item %d at %d", pc.From, off)
			}
		}
		off += pc.Len
	}
	if !padded {
		return fmt.Errorf("nothing to pad")
	}
	return nil
}

// TestOurPaddedMessages: calls and replies that we make, to any alignment that
// a peer may ask for, arrive as they would without padding.
func TestOurPaddedMessages(t *testing.T) {
	padded := 0
	rapid.Check(t, func(t *rapid.T) {
		s := withMSGP()
		c := NewRequester(RequesterConfig{Receive: 16384, ToldSend: 16384, MaxReceives: 100, Settings: &s})
		post(c, c.Start(nil))
		c.Connected(16384, 16384)
		if rapid.Bool().Draw(t, "CCP") {
			c.Configured(16384, uint32(rapid.SampledFrom([]int{0, 1, 4, 8, 64, 512, 1024, 4096, 3, 1 << 17}).Draw(t, "align")), 1, 16384)
		}
		head := oncrpc.AppendCall(nil, &oncrpc.Call{XID: 1, Program: 1, Version: 1})
		m := genMessage(t, head)
		o := &Outgoing{StreamLen: len(m.stream), Items: m.items, MaxReply: 12000}
		must(t, c.Plan(o))
		if now, err := c.Begin(o); !now || err != nil {
			t.Fatal(now, err)
		}
		c.Launch(o, nil)
		o.Build()
		msg := assemble(&o.Header, o.Inline, m.stream, m.data)
		if o.Header.Proc == rpcrdma1.MsgP {
			padded++
			must(t, checkAligned(&o.Header, o.Inline))
		}
		if len(msg) > 16384 || len(msg) != o.Header.Size()+o.MessageLength() {
			t.Fatalf("%d bytes", len(msg))
		}
		r := padResponder()
		call := delivered(r, msg)
		if call == nil {
			t.Fatal("not delivered")
		}
		if got := m.unpad(t, &call.RPC.Args, len(head)); !bytes.Equal(got, m.plain) {
			t.Fatalf("%x, want %x", got, m.plain)
		}
		reply := genMessage(t, oncrpc.AppendAcceptedReply(nil, o.XID))
		for _, a := range r.Reply(call, len(reply.stream), reply.items, nil) {
			a, is := a.(Send)
			if !is {
				continue
			}
			if a.Call.Answer.Header.Proc == rpcrdma1.MsgP {
				padded++
				must(t, checkAligned(a.Call.Answer.Header, a.Call.Answer.Inline))
			}
			checkReply(t, c, assemble(a.Call.Answer.Header, a.Call.Answer.Inline, reply.stream, reply.data), &reply)
		}
	})
	if padded == 0 {
		t.Error("no message was padded")
	}
}

// checkReply takes a reply and compares it with what it is without padding.
func checkReply(t *rapid.T, c *Requester, msg []byte, want *message) {
	taken := false
	for _, a := range c.Receive(0, msg, Invalidation{}, nil) {
		switch a := a.(type) {
		case Take:
			taken = true
			p := oncrpc.Payload{Stream: a.Out.Parts[0][oncrpc.AcceptedReplySize:], Padding: a.Out.Padding}
			p.Padding.Base += oncrpc.AcceptedReplySize
			if got := want.unpad(t, &p, oncrpc.AcceptedReplySize); !bytes.Equal(got, want.plain) {
				t.Fatalf("%x, want %x", got, want.plain)
			}
		case Complete:
			if a.Out.Err != nil {
				t.Fatal(a.Out.Err)
			}
		}
	}
	if !taken {
		t.Fatal("no reply taken")
	}
}

// TestPaddedDoesNotAllocate: padding is a matter of pieces in storage that is
// used again.
func TestPaddedDoesNotAllocate(t *testing.T) {
	seg := rpcrdma1.Segment{Handle: 7, Length: 8192, Offset: 1 << 32}
	h := rpcrdma1.Header{XID: 1, Version: 1, Credits: 32, Proc: rpcrdma1.MsgP, Align: 512, Thresh: 512, Writes: []rpcrdma1.WriteChunk{{seg}}}
	msg := append(oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: 1}), make([]byte, 1000)...)
	r := padResponder()
	acts := served(t, r, msg, nil)
	if n := testing.AllocsPerRun(100, func() { acts = served(t, r, msg, acts) }); n != 0 {
		t.Errorf("responder: %v allocations", n)
	}
	if p := r.Padding(); p.Sent != p.Received || p.Sent < 100 {
		t.Errorf("%+v", p)
	}
	s := withMSGP()
	c := NewRequester(RequesterConfig{Receive: 16384, ToldSend: 16384, MaxReceives: 100, Settings: &s})
	c.Connected(16384, 16384)
	o := &Outgoing{StreamLen: 104, Items: []chunk.Item{{Pos: 100, Len: 1001}}}
	plan := func() {
		if err := c.Plan(o); err != nil || o.Pad.Align != PadAlign {
			t.Fatal(err, o.Pad)
		}
	}
	plan()
	if n := testing.AllocsPerRun(100, plan); n != 0 {
		t.Errorf("requester: %v allocations", n)
	}
}

// TestThreshold: a receiver that pads "at or above" rdma_thresh and one that pads
// above it (RFC 5666 §3.9 says both) find the same padding in what we send.
func TestThreshold(t *testing.T) {
	s := withMSGP()
	var p padding
	p.set(&s)
	rapid.Check(t, func(t *rapid.T) {
		m := genMessage(t, make([]byte, 40))
		for i := range m.items { // around the least, and each other
			if rapid.Bool().Draw(t, "near") {
				m.items[i].Len = rapid.IntRange(PadThresh-1, PadThresh+3).Draw(t, "length")
			}
		}
		pieces := chunk.AppendPieces(nil, len(m.stream), m.items)
		at, ok := p.plan(pieces, emptyHeaderSize, 1<<20)
		if !ok {
			return
		}
		above := at
		above.Thresh++
		if n, k := paddedLength(pieces, at), paddedLength(pieces, above); n != k || at.Thresh < PadThresh {
			t.Fatalf("rdma_thresh %d: %d bytes at or above it, %d above it", at.Thresh, n, k)
		}
	})
}

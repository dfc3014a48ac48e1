package conn

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// script is a fuzz input, read as a sequence of choices.
type script struct {
	b  []byte
	v2 bool // both versions in it
}

// version gives a header version 2 now and then, with what that has.
func (s *script) version(h *Header) {
	if !s.v2 {
		return
	}
	switch v := s.byte(); {
	case v < 0xf0:
		h.Version, h.Direction = rpcrdma2.Version, rpcrdma2.Direction(v>>2&1)
		h.Proc = []rpcrdma1.Proc{rpcrdma2.Msg, rpcrdma2.NoMsg, rpcrdma2.Optional, rpcrdma2.Error}[v&3]
		if v>>3 > 4 && h.Proc > rpcrdma2.NoMsg {
			h.Proc = rpcrdma2.Msg
		}
	case v == 0xff:
		h.Version = 3
	}
	switch h.Proc {
	case rpcrdma2.Optional:
		h.Option, h.Info = optTest+rpcrdma2.OptType(s.byte()%3), s.bytes(int(s.byte()%6))
	case rpcrdma2.Error:
		h.Err = rpcrdma1.ErrCode(1 + s.byte()%4)
		h.Low, h.High = uint32(s.byte()%4), uint32(s.byte()%4)
	}
}

func (s *script) more() bool { return len(s.b) > 0 }

func (s *script) byte() byte {
	if len(s.b) == 0 {
		return 0
	}
	v := s.b[0]
	s.b = s.b[1:]
	return v
}

func (s *script) uint16() int { return int(s.byte())<<8 | int(s.byte()) }

func (s *script) bytes(n int) []byte {
	n = min(n, len(s.b))
	v := s.b[:n:n]
	s.b = s.b[n:]
	return v
}

// hostileMessage makes a message: raw bytes, or a header that is nearly right.
func (s *script) hostileMessage(xid uint32) []byte {
	if s.byte()%8 == 0 {
		return s.bytes(int(s.byte()))
	}
	var h Header
	h.XID, h.Version, h.Credits = xid, 1, uint32(s.byte())
	h.Proc = rpcrdma1.Proc(s.byte() % 5 / 2)
	s.version(&h)
	if h.Proc == rpcrdma1.MsgP {
		h.Align, h.Thresh = 1<<(s.byte()%20), uint32(s.uint16())
	}
	segment := func() rpcrdma1.Segment {
		g := rpcrdma1.Segment{Handle: uint32(s.byte() % 4), Length: uint32(s.uint16()), Offset: uint64(s.byte())}
		if s.byte() == 255 {
			g.Length, g.Offset = g.Length<<16, ^uint64(0)-uint64(g.Handle)
		}
		return g
	}
	for range s.byte() % 4 {
		pos := uint32(s.byte()) * 4
		if s.byte()%8 == 0 {
			pos++
		}
		h.Reads = append(h.Reads, rpcrdma1.ReadSegment{Position: pos, Segment: segment()})
	}
	for range s.byte() % 3 {
		var c rpcrdma1.WriteChunk
		for range s.byte() % 4 {
			c = append(c, segment())
		}
		h.Writes = append(h.Writes, c)
	}
	if h.HasReply = s.byte()%2 == 0; h.HasReply {
		for range s.byte() % 4 {
			h.Reply = append(h.Reply, segment())
		}
	}
	b := h.Append(nil)
	switch s.byte() % 8 {
	case 0:
	case 1:
		b = append(b, s.bytes(60)...)
	case 2:
		b = oncrpc.AppendAcceptedReply(b, xid)
	default:
		b = oncrpc.AppendCall(b, &oncrpc.Call{XID: xid, Program: 1, Version: 1})
		b = append(b, s.bytes(int(s.byte()))...)
	}
	if s.byte() == 254 && len(b) > 0 {
		b[int(s.byte())%len(b)] ^= s.byte()
	}
	return b
}

// responderModel checks what a responder asks for.
type responderModel struct {
	t         *testing.T
	r         *Responder
	posted    map[uint32]bool // receives posted
	recv      uint32
	fetching  []*Call
	delivered []*Call
	sending   []*Call
	exposing  []*Call
	fencing   []*Exposure
	dead      bool
}

func (m *responderModel) run(acts []Action) {
	for _, a := range acts {
		if m.dead {
			m.t.Fatalf("action %d after the end", a.Kind)
		}
		switch a.Kind {
		case Repost:
			if m.posted[a.Recv] {
				m.t.Fatal("receive posted twice")
			}
			m.posted[a.Recv] = true
		case FreeReceive:
			if m.posted[a.Recv] {
				m.t.Fatal("posted receive freed")
			}
		case PostReceives:
			for range a.N {
				m.recv++
				m.posted[m.recv] = true
			}
			m.r.Posted(a.N, a.N)
		case Fetch:
			m.checkFetch(a.Call)
			m.fetching = append(m.fetching, a.Call)
		case Deliver:
			m.read(a.Call)
			m.delivered = append(m.delivered, a.Call)
		case Send:
			m.checkAnswer(a.Call)
			m.sending = append(m.sending, a.Call)
		case Expose:
			m.checkExposure(a.Call.Exposure)
			m.exposing = append(m.exposing, a.Call)
		case Unexpose:
			m.fencing = append(m.fencing, a.Exposure)
		case Report:
			if a.Err == nil {
				m.t.Fatal("refuses without a reason")
			}
		case Disconnect:
			if len(m.fetching)+len(m.delivered)+len(m.exposing) > 0 || m.r.exposures.live > 0 {
				m.t.Fatal("disconnects with calls in progress")
			}
			m.dead = true
		case Fail:
			if a.Err == nil {
				m.t.Fatal("fails without a reason")
			}
			m.dead = true
		}
	}
	n := len(m.posted)
	if n+m.r.Busy() < m.r.grants.Limit()+credit.Slack+m.r.grants.Dones() && !m.dead {
		m.t.Fatalf("%d receives and %d calls for a limit of %d", n, m.r.Busy(), m.r.grants.Limit())
	}
}

// read decodes the arguments as opaques, as a service may.
func (m *responderModel) read(c *Call) {
	d := xdr.NewDecoder(c.RPC.Args.Stream)
	for d.Err() == nil && d.Len() > 0 {
		c.RPC.Args.Opaque(&d, 1<<20)
	}
}

func (m *responderModel) checkFetch(c *Call) {
	total := 0
	for _, f := range c.Fetches {
		if f.Length < 1 || f.Off+f.Length > c.Reads.Chunks[f.Chunk].Length {
			m.t.Fatalf("%+v", f)
		}
		total += f.Length
	}
	if total > MaxMessage {
		m.t.Fatalf("fetches %d bytes", total)
	}
}

func (m *responderModel) checkAnswer(c *Call) {
	a := &c.Answer
	n := a.Header.Size()
	for _, p := range a.Inline {
		n += p.Len
	}
	if limit := int(m.r.PeerReceive()); n > limit {
		m.t.Fatalf("sends %d bytes, limit %d", n, limit)
	}
	if a.Header.Proc == rpcrdma1.MsgP {
		if err := checkAligned(a.Header, a.Inline); err != nil {
			m.t.Fatal(err)
		}
	}
	if a.Header.Credits == 0 {
		m.t.Fatal("grants 0")
	}
	written := 0
	for _, w := range a.Writes {
		written += w.Length
	}
	told := uint64(0)
	if !a.Failed {
		for _, w := range a.Header.Writes {
			told += chunk.Capacity(w)
		}
		told += chunk.Capacity(a.Header.Reply)
	}
	if uint64(written) != told {
		m.t.Fatalf("writes %d bytes, tells of %d", written, told)
	}
	if a.Failed && a.Invalidate {
		m.t.Fatal("an error invalidates")
	}
}

func pick[T any](s *script, list *[]T) (v T, ok bool) {
	if len(*list) == 0 {
		return v, false
	}
	i := int(s.byte()) % len(*list)
	v = (*list)[i]
	*list = append((*list)[:i], (*list)[i+1:]...)
	return v, true
}

// FuzzResponder: a hostile requester against a service and a device that
// finish things in any order.
func FuzzResponder(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x01\x20\x00\x00\x00\x01\x07abcdefgh\x03\x00\x10\x04\x00"))
	f.Add([]byte("\x01\x01\x20\x00\x01\x0a\x01\x02\x10\x00\x00\x01\x00\x00\x07\x08abcdefgh\x02\x00\x03\x00\x20\x04\x00\x05\x10\x20\x30\x40"))
	// Configured: 8 KiB and no RDMA Reads; a call with a read chunk.
	f.Add([]byte("\x08\xff\xff\xff" + "\x07\x01\x20\x00\x00" + "\x00\x01\x01\x20\x00\x01\x0a\x01\x01\x00\x10\x01\x00\x00\x01\x03\x04abcd\x00"))
	// extensions.msgp on; a padded call, answered with an item of 1001 bytes.
	f.Add([]byte("\x08\xff\xff\xff" + "\x05\x08\x00\xff\xff\x0f\xff\x00\x01" +
		"\x00\x01\x01\x20\x04\x09\x02\x58\x00\x00\x01\x03\x04abcd\x00" + "\x03\x00\x00\x68\x01\x03\xe9" + "\x04\x00"))
	// extensions.read_replies on; a reply that is exposed, its DONE.
	f.Add([]byte("\x08\xff\xff\xff" + "\x05\x08\x00\xff\xff\x0f\xff\x00\x02" + "\x00\x01\x01\x20\x00\x00\x00\x01\x03\x04abcd\x00" +
		"\x03\x00\x13\x88\x00" + "\x07\x09\x00\x00" + "\x04\x00" + "\x07\x09\x04\x01" + "\x07\x09\x02\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzResponder(t, &script{b: data}) })
}

// FuzzResponder2 is FuzzResponder with version 2 on, and an extension.
func FuzzResponder2(f *testing.F) {
	f.Add([]byte{})
	// A call of version 2, its reply; an operation; version 1.
	f.Add([]byte("\x08\xff\xff\xff" + "\x00\x01\x01\x20\x00\x00\x00\x00\x01\x03\x04abcd\x00" + "\x03\x00\x00\x68\x00" + "\x04\x00" +
		"\x00\x02\x01\x20\x00\x02\x00\x04\x00\x00\x00\x01\x00\x00\x01\x00\x00" + "\x00\x03\x01\x20\x00\xf0\x00\x00\x01\x03\x04abcd\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzResponder(t, &script{b: data, v2: true}) })
}

func fuzzResponder(t *testing.T, s *script) {
	settings := DefaultSettings()
	settings.CreditsMax = uint32(s.byte() % 16)
	if s.v2 {
		settings.Extensions = ExtV2 | extTest
	}
	m := &responderModel{t: t, posted: make(map[uint32]bool)}
	m.r = NewResponder(ResponderConfig{
		PeerReceive: 4096, ToldSend: 1024 + uint32(s.byte())*16, PeerInvalidates: true, Receive: 4096,
		MaxTransfer: 1 + uint32(s.uint16()), MaxReceives: 64, Settings: &settings,
		Operations: testOperations(optTest, func(string) {}),
	})
	m.run(m.r.Start(nil))
	for s.more() && !m.dead {
		switch s.byte() % 8 {
		case 0, 1:
			m.message(s)
		case 2:
			if c, ok := pick(s, &m.fetching); ok {
				m.fetched(s, c)
			}
		case 3:
			if c, ok := pick(s, &m.delivered); ok {
				m.reply(s, c)
			}
		case 4:
			if c, ok := pick(s, &m.sending); ok {
				m.r.Sent(c)
			}
		case 5:
			settings.CreditsMax = uint32(s.byte() % 16)
			settings.CreditsPolicy = CreditsPolicy(s.byte() % 2)
			settings.DDPMinChunk = uint32(s.uint16())
			settings.InlineSendMax = InlineMin + uint32(s.uint16())
			settings.RemoteInvalidationUse = s.byte()%2 == 0
			settings.Extensions = settings.Extensions&extTest | Extensions(s.byte())
			m.run(m.r.SetSettings(&settings, nil))
		case 6:
			if c, ok := pick(s, &m.fetching); ok {
				m.run(m.r.NoMemory(c, nil))
			}
		case 7:
			switch s.byte() {
			case 0:
				m.run(m.r.Drain(nil))
			case 1:
				m.r.Configured(uint32(s.uint16()), uint32(s.byte()%3))
			default:
				m.readReply(s)
			}
		}
	}
}

func (m *responderModel) message(s *script) {
	if len(m.posted) == 0 {
		m.t.Fatal("no receive posted")
	}
	recv := slices.Min(slices.Collect(maps.Keys(m.posted)))
	delete(m.posted, recv)
	m.run(m.r.Receive(recv, s.hostileMessage(uint32(s.byte()%8)), nil))
}

func (m *responderModel) fetched(s *script, c *Call) {
	var mem [][]byte
	for i := range c.Reads.Chunks {
		b := make([]byte, c.Reads.Chunks[i].Length)
		if i == 0 && c.Reads.Long() && s.byte()%4 != 0 {
			copy(b, oncrpc.AppendCall(nil, &oncrpc.Call{XID: c.XID}))
		}
		mem = append(mem, b)
	}
	m.run(m.r.Fetched(c, mem, nil))
}

func (m *responderModel) reply(s *script, c *Call) {
	stream := s.uint16() % 9000
	var items []chunk.Item
	for range s.byte() % 3 {
		items = append(items, chunk.Item{Pos: min(stream, 24+len(items)), Len: s.uint16() % 9000})
	}
	m.run(m.r.Reply(c, stream, items, nil))
}

// FuzzRequester: a hostile responder. Every call that begins completes once,
// and no reply tells of more bytes than its call has memory for.
func FuzzRequester(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x00\x00\x50\x01\x10\x00\x20\x00\x01\x01\x20\x00\x00\x00\x00\x02\x00\x00\x02\x00\x03\x00"))
	// Configured: 4 KiB, to 64, no RDMA Reads; a long call.
	f.Add([]byte("\xff\xff\xff" + "\x07\x01\x10\x00\x06\x00\xff" + "\x00\x12\x00\x00\x00\x01\x00\x00"))
	// extensions.msgp on; a call with an item of 1001 bytes, a padded answer.
	f.Add([]byte("\xff\xff\xff" + "\x06\x08\x0b\xff\xff\xff\x01" +
		"\x00\x00\x68\x00\x00\x01\x01\x03\xe9\x00" + "\x02\x01\x01\x08\x00\x09\x02\x00\x01"))
	// extensions.read_replies on; a call whose reply is to be read.
	f.Add([]byte("\xff\xff\xff" + "\x06\x08\x0b\xff\xff\xff\x02" + "\x00\x00\x00\x00\x00\x01\x00\x00" +
		"\x02\x01\x00\x01\x01\x20\x02\x01\x00\x01\x01\x13\x88\x07\x00\x00\x01\x00\x00" + "\x07\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzRequester(t, &script{b: data}) })
}

// FuzzRequester2 is FuzzRequester with version 2 offered, and an extension.
func FuzzRequester2(f *testing.F) {
	f.Add([]byte{})
	// A call, its answer in version 2; another, an operation between.
	f.Add([]byte("\xff\xff\xff" + "\x00\x00\x50\x01\x10\x01\x00\x00" + "\x02\x01\x01\x08\x00\x01" +
		"\x00\x00\x50\x01\x10\x01\x00\x00" + "\x02\x01\x00\x09\x01\x20\x02\x06\x01\x04\x00\x00\x00\x00"))
	// A call that is refused with ERR_VERS.
	f.Add([]byte("\xff\xff\xff" + "\x00\x00\x50\x01\x10\x01\x00\x00" + "\x02\x01\x00\x01\x01\x20\x00\x03\x00\x01\x01\x00\x00\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzRequester(t, &script{b: data, v2: true}) })
}

func fuzzRequester(t *testing.T, s *script) {
	settings := DefaultSettings()
	if s.v2 {
		settings.Extensions = ExtV2 | extTest
	}
	m := &requesterModel{t: t, s: s}
	m.r = NewRequester(RequesterConfig{
		Receive: 4096, ToldSend: 1024 + uint32(s.byte())*16, MaxReceives: 64, Settings: &settings,
		Operations: testOperations(optTestAnswer, func(string) {}),
	})
	m.run(m.r.Start(nil))
	m.r.Connected(1024+uint32(s.byte())*16, 1024+uint32(s.byte())*16)
	m.r.MayRead()
	for s.more() && !m.dead {
		switch s.byte() % 8 {
		case 0, 1:
			m.call()
		case 2, 3:
			m.message()
		case 4:
			if o, ok := pick(s, &m.fences); ok {
				m.run(m.r.Fenced(o, nil))
			}
		case 5:
			if len(m.open) > 0 {
				m.run(m.r.Cancel(m.open[int(s.byte())%len(m.open)], nil))
			}
		case 6:
			settings.CreditsMax = uint32(s.byte() % 16)
			settings.InlineSendMax = InlineMin + uint32(s.uint16())
			settings.DDPMinChunk = uint32(s.uint16())
			settings.Extensions = settings.Extensions&extTest | Extensions(s.byte())
			m.run(m.r.SetSettings(&settings, nil))
		case 7:
			m.run(m.r.Posted(0, 0, nil))
			if rd, ok := pick(s, &m.readings); ok {
				m.run(m.r.ReplyFetched(rd, nil))
			}
			if len(m.open) == 0 && s.byte() == 1 {
				m.r.Configured(uint32(s.uint16()), 1<<(s.byte()%20), uint32(s.byte()%3), 1024+uint32(s.byte())*16)
			}
		}
	}
	m.run(m.r.Lost(errors.New("end"), nil))
	if len(m.open) != 0 {
		t.Fatalf("%d calls never complete", len(m.open))
	}
}

type requesterModel struct {
	t        *testing.T
	s        *script
	r        *Requester
	open     []*Outgoing // begun, not complete
	fences   []*Outgoing
	readings []*Reading
	key      uint32
	posted   int
	dead     bool
}

func (m *requesterModel) call() {
	o := &Outgoing{StreamLen: 40 + m.s.uint16()%5000, MaxReply: m.s.uint16() * 16}
	if m.s.byte()%8 == 0 {
		o.XID, o.Again = uint32(m.s.byte()), true
	}
	if m.s.v2 && m.s.byte()%4 == 0 {
		o = &Outgoing{Operation: &testBody{opt: optTest}, Answer: &testBody{opt: optTestAnswer}}
		m.begin(o)
		return
	}
	for range m.s.byte() % 3 {
		o.Items = append(o.Items, chunk.Item{Pos: 40, Len: m.s.uint16()})
	}
	for range m.s.byte() % 3 {
		o.Results = append(o.Results, m.s.uint16()*16)
	}
	m.begin(o)
}

func (m *requesterModel) begin(o *Outgoing) {
	if m.r.Plan(o) != nil {
		return
	}
	now, err := m.r.Begin(o)
	if err != nil {
		return
	}
	m.open = append(m.open, o)
	if now {
		m.launch(o)
	}
}

func (m *requesterModel) launch(o *Outgoing) {
	acts, ok := m.r.Launch(o, nil)
	m.run(acts)
	if !ok {
		return
	}
	for i := range o.Windows {
		m.key++
		o.Windows[i].RKey, o.Windows[i].Addr = m.key%8, uint64(m.key)
	}
	o.Build()
	n := o.Header.Size()
	for _, p := range o.Inline {
		n += p.Len
	}
	if o.Header.Proc == rpcrdma1.MsgP {
		if err := checkAligned(&o.Header, o.Inline); err != nil {
			m.t.Fatal(err)
		}
	}
	if n > int(m.r.SendLimit()) {
		m.t.Fatalf("sends %d bytes, limit %d", n, m.r.SendLimit())
	}
}

// message answers a call truly, nearly so, or with anything.
func (m *requesterModel) message() {
	if m.posted == 0 {
		return
	}
	m.posted--
	var inv Invalidation
	if m.s.byte()%4 == 0 {
		inv = Invalidation{Did: true, RKey: uint32(m.s.byte() % 8)}
	}
	for _, o := range m.open {
		if o.state != outSent || m.s.byte()%4 == 0 {
			continue
		}
		var h Header
		h.XID, h.Version, h.Credits, h.Direction = o.XID, o.version, uint32(m.s.byte()), rpcrdma2.Reply
		for _, w := range o.Header.Writes {
			h.Writes = append(h.Writes, append(rpcrdma1.WriteChunk(nil), w...))
		}
		h.Reply, h.HasReply = append(h.Reply, o.Header.Reply...), o.Header.HasReply
		if h.HasReply && m.s.byte()%2 == 0 {
			h.Proc = rpcrdma1.NoMsg
		} else {
			chunk.Unused(h.Reply)
			if m.s.byte()%4 == 0 && o.version == 1 {
				h.Proc, h.Align, h.Thresh = rpcrdma1.MsgP, 1<<(m.s.byte()%20), uint32(m.s.uint16())
			}
		}
		b := oncrpc.AppendAcceptedReply(h.Append(nil), o.XID)
		if m.s.byte()%4 == 0 {
			at := int(m.s.byte()) % (len(b) - 3)
			binary.BigEndian.PutUint32(b[at:], binary.BigEndian.Uint32(b[at:])+uint32(m.s.byte()))
		}
		m.run(m.r.Receive(0, b, inv, nil))
		return
	}
	m.run(m.r.Receive(0, m.s.hostileMessage(uint32(m.s.byte())), inv, nil))
}

func (m *requesterModel) run(acts []Action) {
	for _, a := range acts {
		switch a.Kind {
		case Repost:
			m.posted++
		case PostReceives:
			m.posted += a.N
			m.run(m.r.Posted(a.N, a.N, nil))
		case Ready:
			m.launch(a.Out)
		case FetchReply:
			m.checkReading(a.Reading)
			m.readings = append(m.readings, a.Reading)
		case SendDone:
			m.r.Done(a.XID)
		case Fence:
			m.fences = append(m.fences, a.Out)
		case Complete:
			m.complete(a.Out)
		case Fail:
			m.dead = true
		}
	}
}

func (m *requesterModel) complete(o *Outgoing) {
	i := slices.Index(m.open, o)
	if i < 0 {
		m.t.Fatal("completes twice")
	}
	m.open = slices.Delete(m.open, i, i+1)
	if o.Long > o.MaxReply+3 {
		m.t.Fatalf("reply of %d bytes in %d", o.Long, o.MaxReply)
	}
	for i, n := range o.Written {
		if n > o.Results[i] {
			m.t.Fatalf("result of %d bytes in %d", n, o.Results[i])
		}
	}
	if m.r.lost != nil {
		return
	}
	for _, w := range o.Windows {
		if !w.Revoked && !errors.Is(o.Err, ErrCanceled) && !errors.Is(o.Err, ErrReplan) {
			m.t.Fatal("completes with memory exposed")
		}
	}
}

package conn

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

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

// FuzzRequester2 is FuzzRequester with version 2 offered.
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
	set := settings.Default()
	if s.v2 {
		set.Extensions = settings.ExtV2
	}
	m := &requesterModel{t: t, s: s, judge: newJudge(t, false)}
	own, peer := s.sizes(), s.sizes()
	own.ReceiveSize = 4096
	m.judge.connect(own, peer)
	m.r = NewRequester(RequesterConfig{
		Receive: 4096, ToldSend: own.SendSize, MaxReceives: 64, Settings: &set,
	})
	m.run(m.r.Start(nil))
	m.r.Connected(peer.ReceiveSize, peer.SendSize)
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
			set.CreditsMax = uint32(s.byte() % 16)
			set.InlineSendMax = settings.InlineMin + uint32(s.uint16())
			set.DDPMinChunk = uint32(s.uint16())
			set.Extensions = settings.Extensions(s.byte())
			m.run(m.r.SetSettings(&set, nil))
		case 7:
			m.run(m.r.Posted(0, 0, nil))
			if rd, ok := pick(s, &m.readings); ok {
				m.judge.reads(rd.Fetches, nil)
				m.run(m.r.ReplyFetched(rd, nil))
			}
			if len(m.open) == 0 && s.byte() == 1 {
				m.judge.off = true
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
	judge    *judge
}

func (m *requesterModel) call() {
	o := &Outgoing{StreamLen: 40 + m.s.uint16()%5000, MaxReply: m.s.uint16() * 16}
	if m.s.byte()%8 == 0 {
		o.XID, o.Again = uint32(m.s.byte()), true
	}
	if m.s.v2 {
		m.s.byte() // so that inputs found before keep their meaning
	}
	for range m.s.byte() % 3 {
		o.Items = append(o.Items, chunk.Item{Pos: 40, Len: m.s.uint16()})
	}
	for range m.s.byte() % 3 {
		o.Results = append(o.Results, m.s.uint16()*16)
	}
	if m.s.byte()%2 == 1 { // each of an operation of its own
		for i := range o.Results {
			o.Asked = append(o.Asked, xdr.Span{Begin: 4 * i, End: 4*i + 4})
		}
	}
	m.begin(o)
}

func (m *requesterModel) begin(o *Outgoing) {
	if m.r.Plan(o) != nil {
		return
	}
	m.run(m.r.Prepare(o, nil))
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
		o.Windows[i].RKey, o.Windows[i].Addr = m.key, uint64(m.key)
	}
	o.Build()
	n := o.Header.Size()
	for _, p := range o.Inline {
		n += p.Len
	}
	for i := range o.More {
		n = max(n, o.More[i].Header.Size()+o.More[i].Length)
	}
	if o.Header.Proc == rpcrdma1.MsgP {
		must(m.t, checkAligned(&o.Header, o.Inline))
	}
	if n > int(m.r.SendLimit()) {
		m.t.Fatalf("sends %d bytes, limit %d", n, m.r.SendLimit())
	}
	for _, msg := range sendsOf(o) {
		m.judge.sends(msg, Invalidation{})
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
		inv = m.invalidation()
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
		m.receive(b, inv)
		return
	}
	m.receive(m.s.hostileMessage(uint32(m.s.byte())), inv)
}

// invalidation is one of the latest windows, or of none.
func (m *requesterModel) invalidation() Invalidation {
	return Invalidation{Did: true, RKey: m.key - uint32(m.s.byte()%8)}
}

func (m *requesterModel) receive(msg []byte, inv Invalidation) {
	m.judge.arrives(msg, inv)
	m.run(m.r.Receive(0, msg, inv, nil))
}

func (m *requesterModel) run(acts []Action) {
	for _, a := range acts {
		switch a := a.(type) {
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
			h := m.r.Done(a.XID)
			m.judge.sends(h.Append(nil), Invalidation{})
		case Complain:
			h := m.r.Complaint()
			m.judge.sends(h.Append(nil), Invalidation{})
		case Tell:
			m.judge.sends(a.Body, Invalidation{})
		case Take:
			if n := partsLength(a.Out); n > transmission.Limit*int(m.r.cfg.Receive) {
				m.t.Fatalf("takes %d bytes", n)
			}
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

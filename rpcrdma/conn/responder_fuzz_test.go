package conn

import (
	"maps"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

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
	ahead     map[*Call][]chunk.Item // results of calls delivered that are partly there
	early     map[*Call]bool         // calls delivered whose chunks are still being read
	written   map[*Call]int          // bytes of them that are written, while they are to be in the reply
	fencing   []*Exposure
	dead      bool
	judge     *judge
}

func (m *responderModel) receive(recv uint32, msg []byte) {
	m.judge.arrives(msg, Invalidation{})
	m.run(m.r.Receive(recv, msg, nil))
}

func (m *responderModel) run(acts []Action) {
	for _, a := range acts {
		if m.dead {
			m.t.Fatalf("%T after the end", a)
		}
		switch a := a.(type) {
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
		case Write:
			for _, w := range a.Call.Ahead {
				m.written[a.Call] += w.Length
			}
			m.judge.writes(a.Call.Ahead)
		case Send:
			m.checkAnswer(a.Call)
			m.sending = append(m.sending, a.Call)
			m.judge.writes(a.Call.Answer.Writes)
			for _, s := range answerOf(a.Call) {
				m.judge.sends(s.msg, s.inv)
			}
		case Tell:
			m.judge.sends(a.Body, Invalidation{})
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
			if !m.r.finishes && len(m.fetching)+len(m.delivered) > 0 || len(m.exposing) > 0 || m.r.exposures.live > 0 {
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
		must(m.t, checkAligned(a.Header, a.Inline))
	}
	if a.Header.Credits == 0 {
		m.t.Fatal("grants 0")
	}
	written := m.written[c]
	delete(m.written, c)
	if a.Failed {
		written = 0
	}
	for _, w := range a.Writes {
		written += w.Length
	}
	told := uint64(0)
	if !a.Failed {
		for _, w := range a.Header.Writes {
			told += chunk.Capacity(w)
		}
		if a.Header.Proc != rpcrdma2.Optional {
			told += chunk.Capacity(a.Header.Reply)
		}
	}
	for i := range a.More {
		if t := &a.More[i]; t.Header.Size()+t.Length > int(m.r.PeerReceive()) || chunk.Length(t.Inline) != t.Length {
			m.t.Fatalf("transmission %d of %d bytes", i+1, t.Length)
		}
	}
	if a.Header.Proc == rpcrdma2.Optional && !a.Failed && 1+len(a.More) > c.ReplySends() {
		m.t.Fatalf("%d transmissions, %d allowed", 1+len(a.More), c.ReplySends())
	}
	if uint64(written) != told {
		m.t.Fatalf("writes %d bytes, tells of %d", written, told)
	}
	if a.Failed && a.Invalidate {
		m.t.Fatal("an error invalidates")
	}
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
	// A result of 4096 bytes, of which 1000, then 3000 are there, then the reply; another, whose
	// service fails.
	for _, fails := range []string{"\x01", "\x00"} {
		f.Add([]byte("\x08\xff\xff\xff" + "\x00\x01\x01\x20\x00\x00\x01\x01\x01\x20\x00\x00\x00\x01\x03\x04abcd\x00" +
			"\x07\x02\x00\x10\x00\x03\xe8" + "\x07\x02\x00\x01\x0b\xb8" + "\x03\x00" + fails + "\x00\x68\x00" + "\x04\x00"))
	}
	// A call with a read chunk, delivered while it is read.
	f.Add([]byte("\x08\xff\xff\xff" + "\x00\x01\x01\x20\x00\x01\x0a\x01\x01\x00\x10\x01\x00\x00\x01\x03\x04abcd\x00" +
		"\x07\x03\x00" + "\x03\x00" + "\x02\x00" + "\x03\x00\x00\x68\x00" + "\x04\x00"))
	// extensions.read_replies on; a reply that is exposed, its DONE.
	f.Add([]byte("\x08\xff\xff\xff" + "\x05\x08\x00\xff\xff\x0f\xff\x00\x02" + "\x00\x01\x01\x20\x00\x00\x00\x01\x03\x04abcd\x00" +
		"\x03\x00\x13\x88\x00" + "\x07\x09\x00\x00" + "\x04\x00" + "\x07\x09\x04\x01" + "\x07\x09\x02\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzResponder(t, &script{b: data}) })
}

// FuzzResponder2 is FuzzResponder with version 2 on.
func FuzzResponder2(f *testing.F) {
	f.Add([]byte{})
	// A call of version 2, its reply; an operation; version 1.
	f.Add([]byte("\x08\xff\xff\xff" + "\x00\x01\x01\x20\x00\x00\x00\x00\x01\x03\x04abcd\x00" + "\x03\x00\x00\x68\x00" + "\x04\x00" +
		"\x00\x02\x01\x20\x00\x02\x00\x04\x00\x00\x00\x01\x00\x00\x01\x00\x00" + "\x00\x03\x01\x20\x00\xf0\x00\x00\x01\x03\x04abcd\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzResponder(t, &script{b: data, v2: true}) })
}

func fuzzResponder(t *testing.T, s *script) {
	set := settings.Default()
	set.CreditsMax = uint32(s.byte() % 16)
	if s.v2 {
		set.Extensions = settings.ExtV2
	}
	m := &responderModel{t: t, posted: make(map[uint32]bool), ahead: make(map[*Call][]chunk.Item), early: make(map[*Call]bool), written: make(map[*Call]int), judge: newJudge(t, true)}
	toldSend := s.size()
	m.judge.connect(wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}, wire.PrivateData{RemoteInvalidation: true, SendSize: toldSend, ReceiveSize: 4096})
	m.r = NewResponder(ResponderConfig{
		PeerReceive: 4096, ToldSend: toldSend, PeerInvalidates: true, Receive: 4096,
		MaxTransfer: 1 + uint32(s.uint16()), MaxReceives: 64, Settings: &set,
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
			if c, ok := pick(s, &m.delivered); ok && m.early[c] {
				m.delivered = append(m.delivered, c)
			} else if ok {
				m.reply(s, c)
			}
		case 4:
			if c, ok := pick(s, &m.sending); ok {
				m.r.Sent(c)
			}
		case 5:
			set.CreditsMax = uint32(s.byte() % 16)
			set.CreditsPolicy = settings.Policy(s.byte() % 2)
			set.DDPMinChunk = uint32(s.uint16())
			set.InlineSendMax = settings.InlineMin + uint32(s.uint16())
			set.RemoteInvalidationUse = s.byte()%2 == 0
			set.Extensions = settings.Extensions(s.byte())
			m.run(m.r.SetSettings(&set, nil))
		case 6:
			if c, ok := pick(s, &m.fetching); ok && m.early[c] {
				m.fetching = append(m.fetching, c)
			} else if ok {
				m.run(m.r.NoMemory(c, nil))
			}
		case 7:
			switch s.byte() {
			case 0:
				m.run(m.r.Drain(nil))
			case 4:
				m.run(m.r.Finish(nil))
			case 1:
				m.judge.off = true
				m.r.Configured(uint32(s.uint16()), uint32(s.byte()%3))
			case 2:
				m.filled(s)
			case 3:
				m.begun(s)
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
	m.receive(recv, s.hostileMessage(uint32(s.byte()%8)))
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
	m.judge.reads(c.Fetches, mem)
	n := len(m.delivered)
	m.run(m.r.Fetched(c, mem, nil))
	if m.early[c] && len(m.delivered) != n {
		m.t.Fatal("delivered twice")
	}
	delete(m.early, c)
}

// begun has the RDMA Reads of a call posted.
func (m *responderModel) begun(s *script) {
	if len(m.fetching) == 0 {
		return
	}
	c := m.fetching[int(s.byte())%len(m.fetching)]
	if m.early[c] {
		return
	}
	mem := make([][]byte, len(c.Reads.Chunks))
	for i := range mem {
		mem[i] = make([]byte, c.Reads.Chunks[i].Length)
	}
	n := len(m.delivered)
	m.run(m.r.Fetching(c, mem, nil))
	m.early[c] = len(m.delivered) > n
}

// filled has a service fill a part of its last result, or begin another one.
func (m *responderModel) filled(s *script) {
	if len(m.delivered) == 0 {
		return
	}
	c := m.delivered[int(s.byte())%len(m.delivered)]
	items := m.ahead[c]
	if i := len(items); i == 0 || i < 3 && s.byte()%2 == 0 {
		items = append(items, chunk.Item{Pos: oncrpc.AcceptedReplySize + xdr.Unit*i, Len: s.uint16() % 9000})
		m.ahead[c] = items
	}
	i := len(items) - 1
	m.run(m.r.Filled(c, i, items[i].Len, s.uint16()%(items[i].Len+1), nil))
}

func (m *responderModel) reply(s *script, c *Call) {
	stream := oncrpc.AcceptedReplySize + xdr.Padded(s.uint16()%9000)
	items := m.ahead[c]
	delete(m.ahead, c)
	if items != nil && s.byte()%4 == 0 { // the service has failed
		delete(m.written, c)
		m.run(m.r.Reply(c, stream, nil, nil))
		return
	}
	for range s.byte() % 3 {
		it := chunk.Item{Pos: min(stream, oncrpc.AcceptedReplySize+xdr.Unit*len(items)), Len: s.uint16() % 9000}
		if op := int(s.byte()) % 8; op == 7 {
			it.Len, it.Absent = 0, true
		} else if op > 0 { // of an operation of the call, in order or not
			it.Asked = xdr.Span{Begin: 8 * op, End: 8*op + 8}
		}
		items = append(items, it)
	}
	m.run(m.r.Reply(c, stream, items, nil))
}

package referee

import (
	"math/rand/v2"
	"testing"
)

// model is two correct peers, each acting on what it knows, and an observer
// somewhere between them. The Referee must be silent, whatever the order in
// which messages move.
type model struct {
	draw  func(n int) int // from 0 to n-1
	b     *bed
	ways  [2]way // by sender
	peers [2]peer
	stag  int
}

// way is what one side sent: packets that the observer has not seen, and
// packets that it has seen and the peer has not received.
type way struct{ unseen, seen []packet }

type packet struct {
	Event
	call     *modelCall // that the packet carries or answers
	grant    int        // in replies
	answers  bool
	response bool // a Read Response; call continues with it
	done     bool
}

// peer is one side, as requester and as responder.
type peer struct {
	xid, grant, inFlight int
	waiting              []*modelCall // calls to answer
	exposed              map[*modelCall]bool
}

type modelCall struct {
	xid    int
	caller Side
	lists  lists
	long   bool   // sent with a position-zero chunk
	text   []byte // of a long call
	read   int    // bytes of WRITE data in a chunk
	write  int    // bytes of READ data requested
	reads  int    // RDMA Reads that are not done
	ready  bool
	asked  bool
}

const padSTag = 999

func newModel(b *bed, draw func(int) int) *model {
	m := &model{b: b, draw: draw, stag: 1000}
	for i := range m.peers {
		m.peers[i] = peer{xid: 1, grant: 1, exposed: map[*modelCall]bool{}}
	}
	return m
}

func (m *model) put(from Side, p packet) {
	p.From = from
	if p.Data != nil && p.Length == 0 {
		p.Length = len(p.Data)
	}
	m.ways[from].unseen = append(m.ways[from].unseen, p)
}

// step makes one random thing happen.
func (m *model) step() {
	side := Side(m.draw(2))
	w := &m.ways[side]
	switch m.draw(6) {
	case 0, 1:
		if len(w.unseen) > 0 {
			p := w.unseen[0]
			w.unseen = w.unseen[1:]
			e := p.Event
			if p.response { // travels in the direction opposite to the Read
				e.From = e.From.Peer()
			}
			m.b.event(e)
			w.seen = append(w.seen, p)
		}
	case 2, 3:
		if len(w.seen) > 0 {
			p := w.seen[0]
			w.seen = w.seen[1:]
			m.receive(side.Peer(), p)
		}
	case 4:
		m.makeCall(side)
	case 5:
		m.work(side)
	}
}

func (m *model) newSTag() int {
	m.stag++
	return m.stag
}

// makeCall makes a call if the side has a credit.
func (m *model) makeCall(s Side) {
	p := &m.peers[s]
	if p.inFlight >= p.grant {
		return
	}
	p.inFlight++
	p.xid++
	c := &modelCall{xid: p.xid, caller: s}
	text := null(c.xid)
	if s == Client {
		text = m.clientCall(c)
	}
	proc := msg
	if c.long {
		proc, c.text, text = nomsg, text, nil
	}
	m.put(s, packet{Event: Event{Kind: Send, Data: v1(c.xid, 16, proc, c.lists, text)}, call: c})
}

func (m *model) clientCall(c *modelCall) []byte {
	text := rpcCallBytes(c.xid, 0x20020049, 1, 1, 5)
	switch m.draw(6) {
	case 0: // WRITE
		c.read = 1 + m.draw(300)
		text = rpcCallBytes(c.xid, nfsProgram, 3, nfs3Write, encoded(&handle3), uint64(0), c.read, 2, c.read)
		first := min(c.read, 100)
		c.lists.reads = []rd{{len(text), seg{m.newSTag(), first, 64}}}
		if c.read > first {
			c.lists.reads = append(c.lists.reads, rd{len(text), seg{m.newSTag(), c.read - first, 0}})
		}
	case 1: // READ
		c.write = 1 + m.draw(300)
		text = rpcCallBytes(c.xid, nfsProgram, 3, nfs3Read, encoded(&handle3), uint64(0), c.write)
		c.lists.writes = [][]seg{{{m.newSTag(), 100, 0}, {m.newSTag(), 250, 8}, {padSTag, 4, 0}}}
	case 2:
		c.lists.reply = []seg{{m.newSTag(), 20, 0}, {m.newSTag(), 400, 8}}
	case 3:
		c.long = true
		c.lists.reads = []rd{{0, seg{m.newSTag(), 24, 0}}, {0, seg{m.newSTag(), len(text) - 24, 0}}}
	}
	return text
}

// receive handles a packet that arrives at a side.
func (m *model) receive(at Side, p packet) {
	me := &m.peers[at]
	switch {
	case p.done:
		delete(me.exposed, p.call)
	case p.Kind == Read:
		data := make([]byte, p.Length)
		if p.call.long && p.call.caller == at {
			start := 0
			if p.STag == uint32(p.call.lists.reads[1].stag) {
				start = 24
			}
			data = p.call.text[start : start+p.Length]
		}
		m.put(at, packet{Event: Event{Kind: ReadDone, Data: data}, call: p.call, response: true})
	case p.response:
		p.call.reads--
		if p.call.reads == 0 && p.call.caller == at { // the read list of a reply
			m.put(at, packet{Event: Event{Kind: Send, Data: words(p.call.xid, 1, 1, done)}, call: p.call, done: true})
		}
	case p.Kind == Write:
	case p.answers:
		me.inFlight--
		me.grant = max(p.grant, 1)
		if p.call.asked {
			m.put(at, packet{Event: Event{Kind: Read, STag: uint32(p.call.xid), Length: 40}, call: p.call})
			p.call.reads++
		}
	default:
		me.waiting = append(me.waiting, p.call)
	}
}

// work continues a call that waits for its answer.
func (m *model) work(at Side) {
	me := &m.peers[at]
	if len(me.waiting) == 0 {
		return
	}
	i := m.draw(len(me.waiting))
	c := me.waiting[i]
	if !c.ready {
		c.ready = true
		for _, x := range c.lists.reads {
			half := x.length / 2
			for _, part := range []seg{{x.stag, half, x.offset}, {x.stag, x.length - half, x.offset + half}} {
				if part.length > 0 && (!c.long || part.length == x.length-half) {
					if c.long {
						part = x.seg
					}
					m.put(at, packet{Event: Event{Kind: Read, STag: uint32(part.stag), Offset: uint64(part.offset), Length: part.length}, call: c})
					c.reads++
				}
			}
		}
		return
	}
	if c.reads > 0 {
		return
	}
	me.waiting = append(me.waiting[:i:i], me.waiting[i+1:]...)
	m.answer(at, c)
}

func (m *model) answer(at Side, c *modelCall) {
	grant := 1 + m.draw(6)
	if m.draw(20) == 0 {
		m.put(at, packet{Event: Event{Kind: Send, Data: words(c.xid, 1, grant, rdmaError, 2)}, call: c, answers: true, grant: grant})
		return
	}
	l := lists{writes: c.lists.writes}
	text, proc := rpcReplyBytes(c.xid, 0, 0), msg
	invalidate := 0
	switch {
	case c.read > 0:
		invalidate = c.lists.reads[0].stag
		text = rpcReplyBytes(c.xid, 0)
	case c.write > 0:
		n := m.draw(c.write + 1)
		l.writes = [][]seg{m.fill(at, c, c.lists.writes[0], make([]byte, n))}
		text = read3(n, nil)
		copy(text, words(c.xid))
		invalidate = c.lists.writes[0][0].stag
	case c.lists.reply != nil && m.draw(3) > 0:
		proc = nomsg
		l.reply = m.fill(at, c, c.lists.reply, text)
		text = nil
	case c.lists.reply != nil:
		l.reply = []seg{{c.lists.reply[0].stag, 0, 0}, {c.lists.reply[1].stag, 0, 8}}
	case m.draw(8) == 0 && c.caller == Client && !c.long:
		l.reads = []rd{{len(text), seg{c.xid, 40, 0}}}
		c.asked = true
		m.peers[at].exposed[c] = true
	}
	e := Event{Kind: Send, Data: v1(c.xid, grant, proc, l, text)}
	if invalidate != 0 && m.draw(2) == 0 {
		e.Kind, e.STag = SendInvalidate, uint32(invalidate)
	}
	m.put(at, packet{Event: e, call: c, answers: true, grant: grant})
}

// fill writes data into a chunk and returns the chunk as the reply returns it.
func (m *model) fill(at Side, c *modelCall, chunk []seg, data []byte) []seg {
	out := make([]seg, len(chunk))
	var writes []packet
	for i, s := range chunk {
		n := min(len(data), s.length)
		out[i] = seg{s.stag, n, s.offset}
		if n > 0 {
			writes = append(writes, packet{Event: Event{Kind: Write, STag: uint32(s.stag), Offset: uint64(s.offset), Data: data[:n], Length: n}, call: c})
		}
		data = data[n:]
	}
	if m.draw(2) == 0 && len(writes) > 1 { // in any order
		writes[0], writes[1] = writes[1], writes[0]
	}
	for _, w := range writes {
		m.put(at, w)
	}
	return out
}

func (m *model) check(t *testing.T) {
	if len(m.b.got) > 0 {
		t.Fatalf("peers that keep to the texts broke %v", m.b.got[0])
	}
	if why := m.b.r.GivenUp(); why != "" {
		t.Fatal(why)
	}
}

func TestCorrectPeers(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		m := newModel(connected(t), random.IntN)
		for range 2000 {
			m.step()
		}
		m.check(t)
		s := m.b.r.Summary()
		if s.Forward.Calls < 20 || s.Reverse.Calls < 20 || s.Server.Reads == 0 || s.Server.Writes == 0 {
			t.Fatalf("seed %d: too little happened: %+v", seed, s)
		}
		if n := len(m.b.r.dirs[Client].calls); n > 16 {
			t.Fatalf("seed %d: %d calls are kept", seed, n)
		}
	}
}

// TestCorrectPeersGap drops events at random places.
func TestCorrectPeersGap(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 2))
		m := newModel(connected(t), random.IntN)
		for i := range 2000 {
			m.step()
			if i%500 == 250 {
				for _, s := range []Side{Client, Server} {
					w := &m.ways[s]
					n := random.IntN(len(w.unseen) + 1)
					w.seen = append(w.seen, w.unseen[:n]...)
					w.unseen = w.unseen[n:]
				}
				m.b.r.Gap()
			}
		}
		m.check(t)
	}
}

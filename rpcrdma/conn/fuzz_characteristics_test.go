package conn

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// FuzzCharacteristics: whatever peers tell and ask for, and settings change in
// between, both roles keep to what a Send may have, never tell of less unasked, and
// have a bounded number of operations on their way.
func FuzzCharacteristics(f *testing.F) {
	for _, seed := range []string{
		"", "\x00\x01\x08\x02\x02\x20\x00", "\x03\x01\x10\x04\x01\x04\x30\x00\x00\x01", "\x00\x03\x07\x01\x02\x01\x04\x00\x01\x02\x01\x01\x04\x00",
		"\x00\x02\x08\x04\x10\x00\x01\x04\x40\x00\x05\x02\x02\x01\x08\x04\x10\x00\x03\x01\x01\x04\x10\x00\x04\x04\x04",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &script{b: data}
		set := settings.Default()
		set.Extensions |= settings.ExtV2 | settings.ExtCharacteristics
		server := NewResponder(ResponderConfig{PeerReceive: 4096, ToldSend: 4096, CanInvalidate: true, MaxTransfer: 1 << 20, MaxReceives: 100, Receive: 4096, Settings: &set})
		client := NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 100, Revocable: true, Settings: &set})
		m := &characteristicsModel{t: t, server: server, client: client, judges: [2]*judge{newJudge(t, true), newJudge(t, false)}}
		for _, j := range m.judges {
			both := wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}
			j.connect(both, both)
		}
		m.fromServer(server.Start(nil))
		m.fromClient(client.Start(nil))
		client.Connected(4096, 4096)
		m.fromClient(client.Greet(nil))
		for n := 0; s.more() && n < 200 && !m.failed; n++ {
			m.step(s, &set)
			m.check()
		}
	})
}

type characteristicsModel struct {
	t      *testing.T
	server *Responder
	client *Requester
	// Told to the peer, and asked for by it, by role.
	own, wanted [2]uint32
	asked       [2]uint32 // XID of the last REQUEST or INIT
	unsent      [2]int
	recv        uint32
	failed      bool
	judges      [2]*judge
}

func (m *characteristicsModel) step(s *script, set *settings.Settings) {
	who := int(s.byte() & 1)
	switch what := s.byte() % 8; what {
	case 0:
		set.InlineReceiveSize = 1024 * uint32(1+s.byte()%64)
		set.RemoteInvalidationAccept = s.byte()&1 == 0
		if who == 0 {
			m.fromServer(m.server.SetSettings(set, nil))
		} else {
			m.fromClient(m.client.SetSettings(set, nil))
		}
	case 1:
		below := int(s.byte() % 4)
		if who == 0 {
			m.fromServer(m.server.Resized(below, 4, nil))
		} else {
			m.fromClient(m.client.Resized(below, 4, nil))
		}
	case 2:
		if m.unsent[who] > 0 {
			m.unsent[who]--
			if who == 0 {
				m.server.Told()
			} else {
				m.client.Told()
			}
		}
	default:
		m.message(s, who)
	}
}

// message gives a role an operation of its peer.
func (m *characteristicsModel) message(s *script, who int) {
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: m.asked[who], Version: 2, Credits: 4, Proc: rpcrdma2.Optional}}
	if s.byte()&3 == 0 {
		h.XID = uint32(s.byte())
	}
	h.Direction = rpcrdma2.Direction(who)
	h.Option = 1 + rpcrdma2.OptType(s.byte()%5)
	var set rpcrdma2.Set
	for range s.byte() % 4 {
		id := rpcrdma2.CharID(s.byte() % 10)
		if id == 9 {
			id = rpcrdma2.CharExperimentalLow + 0x52
		}
		set = append(set, rpcrdma2.Characteristic{ID: id, Data: append([]byte{0, 0}[:min(2, len(s.b))], s.bytes(int(s.byte()%12))...)})
	}
	var body rpcrdma2.Body
	switch h.Option {
	case rpcrdma2.OptInit:
		body = &rpcrdma2.Init{Start: set}
	case rpcrdma2.OptRequest:
		body = &rpcrdma2.Request{Want: set}
		if n, some := sizeWanted(set); some {
			m.wanted[who] = n
		}
	case rpcrdma2.OptRespond:
		body = &rpcrdma2.Respond{Done: rpcrdma2.Subset{uint32(s.byte())}, Rejected: rpcrdma2.Subset{uint32(s.byte())}, Other: set}
	case rpcrdma2.OptUpdate:
		body = &rpcrdma2.Update{Now: set}
	default:
		h.Proc, h.Err = rpcrdma1.Error, rpcrdma2.ErrInvalOption
	}
	if body != nil {
		h.Info = body.Append(nil)
		h.Info = h.Info[:len(h.Info)-len(h.Info)*int(s.byte()%8/7)/2]
	}
	msg := h.Append(nil)
	m.recv++
	m.judges[who].arrives(msg, Invalidation{})
	if who == 0 {
		m.fromServer(m.server.Receive(m.recv, msg, nil))
	} else {
		m.fromClient(m.client.Receive(m.recv, msg, Invalidation{}, nil))
	}
}

func sizeWanted(set rpcrdma2.Set) (n uint32, some bool) {
	for _, c := range set {
		var v rpcrdma2.Values
		if _, err := v.Set(c); err == nil && c.ID == rpcrdma2.CharReceiveSize {
			return v.ReceiveSize, true
		}
	}
	return 0, false
}

func (m *characteristicsModel) fromServer(acts []Action) {
	for i := 0; i < len(acts); i++ {
		a := acts[i]
		m.say(0, a)
		switch a := a.(type) {
		case PostReceives:
			m.server.Posted(a.N, a.N)
		case Send:
			for _, s := range answerOf(a.Call) {
				m.judges[0].sends(s.msg, s.inv)
			}
			m.server.Sent(a.Call)
		}
	}
}

func (m *characteristicsModel) fromClient(acts []Action) {
	for i := 0; i < len(acts); i++ {
		a := acts[i]
		m.say(1, a)
		if a, is := a.(PostReceives); is {
			acts = m.client.Posted(a.N, a.N, acts)
		}
	}
}

// say follows what a role tells.
func (m *characteristicsModel) say(who int, act Action) {
	m.failed = m.failed || is[Fail](act)
	a, told := act.(Tell)
	if !told {
		return
	}
	m.judges[who].sends(a.Body, Invalidation{})
	var h rpcrdma2.Header
	if _, err := h.Decode(a.Body); err != nil || len(a.Body) > settings.InlineMin {
		m.t.Fatalf("tells %d bytes: %v", len(a.Body), err)
	}
	if m.unsent[who]++; m.unsent[who] > maxUnsent {
		m.t.Fatalf("%d operations are being sent", m.unsent[who])
	}
	if h.Option == rpcrdma2.OptRequest || h.Option == rpcrdma2.OptInit {
		m.asked[who] = h.XID
	}
	if h.Option == rpcrdma2.OptUpdate {
		var body rpcrdma2.Update
		must(m.t, body.Decode(h.Info))
		if n, some := sizeWanted(body.Now); some && n < m.own[who] {
			m.t.Fatalf("receives of %d bytes become %d unasked", m.own[who], n)
		}
	}
}

// check holds what both roles know against what can be.
func (m *characteristicsModel) check() {
	for who, c := range []Characteristics{m.server.Characteristics(), m.client.Characteristics()} {
		if c.Own.ReceiveSize < rpcrdma2.DefaultReceiveSize || c.Peer.ReceiveSize < settings.InlineMin {
			m.t.Fatalf("%d: %+v", who, c)
		}
		if n := c.Own.ReceiveSize; n < m.own[who] && n < m.wanted[who] {
			m.t.Fatalf("%d: %d bytes, the peer asked for %d of %d", who, n, m.wanted[who], m.own[who])
		}
		m.own[who] = c.Own.ReceiveSize
	}
	for _, n := range []uint32{m.server.SendLimit(), m.client.SendLimit(), m.server.PeerReceive(), m.client.PeerReceive()} {
		if n < settings.InlineMin || n > settings.InlineMax {
			m.t.Fatalf("Sends of %d bytes", n)
		}
	}
	if m.client.ReplyLimit() > m.client.Characteristics().Own.ReceiveSize {
		m.t.Fatalf("expects Sends of %d bytes", m.client.ReplyLimit())
	}
}

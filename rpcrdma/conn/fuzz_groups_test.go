package conn

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/conn/transmission"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// transmission makes a message of a transmission group, nearly right.
func (s *script) transmission(d rpcrdma2.Direction, xid uint32) []byte {
	payload := s.bytes(int(s.byte()))
	if s.byte()%2 == 0 {
		payload = append(oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 1, Version: 1}), payload...)
		if d == rpcrdma2.Reply {
			payload = append(oncrpc.AppendAcceptedReply(nil, xid), payload...)
		}
	}
	length := uint32(len(payload))
	if s.byte() == 255 {
		length += uint32(s.byte())
	}
	initial := rpcrdma2.OptXmtReq + rpcrdma2.OptType(d)
	var body rpcrdma2.Body
	switch kind := s.byte(); kind % 8 {
	case 0, 1, 2:
		number := uint32(kind >> 3 % 8)
		if kind == 0xff {
			initial = rpcrdma2.OptXmtReq + rpcrdma2.OptType(s.byte()%3)
		}
		body = &rpcrdma2.XmtCont{Number: number, Initial: initial, PayloadLength: length}
	case 3:
		body = &rpcrdma2.XmtError{Bad: rpcrdma2.Transmission{XID: xid, Direction: rpcrdma2.Direction(kind >> 3 & 1)}, Code: rpcrdma2.XmtErrCode(1 + kind>>4%8)}
	default:
		if d == rpcrdma2.Reply {
			body = &rpcrdma2.XmtResp{Items: s.items(), Count: uint32(kind >> 3 % 10), PayloadLength: length}
			break
		}
		req := &rpcrdma2.XmtReq{Items: s.items(), Count: uint32(kind >> 3 % 10), ReceiveBuffers: uint32(s.byte() % 12), PayloadLength: length}
		for range s.byte() % 3 {
			set := rpcrdma2.ResultSet{Begin: uint32(s.byte()), End: uint32(s.byte())}
			for range s.byte() % 3 {
				set.Items = append(set.Items, rpcrdma2.ResultItem{MinLength: uint32(s.uint16()), Place: 1 + rpcrdma2.Placement(s.byte()%4), Threshold: uint32(s.uint16()), Segments: s.segments()})
			}
			req.Results = append(req.Results, set)
		}
		if req.HasReply = s.byte()%2 == 0; req.HasReply {
			req.Reply = s.segments()
		}
		body = req
	}
	b := optionMessage(xid, d, body, payload)
	if s.byte() == 254 {
		b[int(s.byte())%len(b)] ^= s.byte()
	}
	return b
}

func (s *script) items() (all []rpcrdma2.Item) {
	for range s.byte() % 3 {
		it := rpcrdma2.Item{Disp: uint32(s.byte()) * 4, Length: uint32(s.uint16()), Place: rpcrdma2.Placement(1 + s.byte()%6), Segments: s.segments(), Offset: uint32(s.byte())}
		if s.byte()%2 == 0 {
			it.Length = uint32(segmentsLength(it.Segments))
		}
		if it.Place == rpcrdma2.TargetBuffer {
			for range s.byte() % 4 {
				it.Targets = append(it.Targets, uint32(s.byte()%20))
			}
			it.Offset *= 4
		}
		all = append(all, it)
	}
	return all
}

func (s *script) segments() (all []rpcrdma1.Segment) {
	for range s.byte() % 3 {
		all = append(all, rpcrdma1.Segment{Handle: uint32(s.byte() % 4), Length: uint32(s.uint16()), Offset: uint64(s.byte())})
	}
	return all
}

func segmentsLength(segs []rpcrdma1.Segment) (n int) {
	for _, g := range segs {
		n += int(g.Length)
	}
	return n
}

// FuzzGroupResponder: a hostile requester with extensions.continuation. Whatever
// it sends, receives and credits stay accounted for.
func FuzzGroupResponder(f *testing.F) {
	f.Add([]byte{})
	// A call of two transmissions, and its reply of several.
	f.Add([]byte("\x00\x01\x10abcdefghijklmnop\x00\x00\x14\x00\x07\x00\x01\x00" + "\x00\x01\x04abcd\x01\x00\x08\x00" + "\x03\x00\x23\x28\x00" + "\x04\x00"))
	f.Add([]byte("\x00\x01\x00\x00\x00\x1c\x00\x07\x01\x00\xff\x01\x00\x10\x00\x00\x01\x01\x01\x20\x00\x07\x01\x00\x00\x01\x20\x00\x03\x00" + "\x01\x02\x00\x00\x00\x04\x00\x00\x00\x01\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzGroupResponder(t, data, 4096, continuing()) })
}

// FuzzPlaceResponder: the same with items in target segments.
func FuzzPlaceResponder(f *testing.F) {
	f.Add([]byte{})
	// A call with an item in the only target segment, and its reply with another.
	f.Add([]byte("\x00\x01\x10abcdefghijklmnop\x00\x00\x0c\x01\x0b\x00\x10\x01\x00\x00\x01\x01\x00\x00\x01\x00\x30\x01\x00\x00\x01\x00\x00\x01\x00\x00" + "\x03\x00\x23\x28\x01" + "\x04\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzGroupResponder(t, data, placedReceive, *placingSettings()) })
}

func fuzzGroupResponder(t *testing.T, data []byte, receive uint32, set settings.Settings) {
	s := &script{b: data}
	on := set.Extensions & settings.ExtSendDDP
	set.CreditsMax = 1 + uint32(s.byte()%16)
	m := &responderModel{t: t, posted: make(map[uint32]bool), judge: newJudge(t, true)}
	m.judge.r.Gap() // messages that the referee did not see
	m.r = NewResponder(ResponderConfig{
		PeerReceive: receive, ToldSend: receive, PeerInvalidates: true, Receive: receive, MaxTransfer: 1 << 20, MaxReceives: 64, Settings: &set,
	})
	m.r.chars.Told = m.r.chars.Own
	m.run(m.r.Start(nil))
	for s.more() && !m.dead {
		switch s.byte() % 8 {
		case 0, 1, 2:
			recv := slices.Min(slices.Collect(maps.Keys(m.posted)))
			delete(m.posted, recv)
			xid := uint32(s.byte() % 8)
			if s.byte()%16 == 15 {
				m.receive(recv, s.hostileMessage(xid))
			} else {
				m.receive(recv, s.transmission(rpcrdma2.Call, xid))
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
			if c, ok := pick(s, &m.fetching); ok {
				m.fetched(s, c)
			}
		case 6:
			now := s.byte()
			set.Extensions = settings.ExtV2 | settings.Extensions(now)&3<<7 | on*settings.Extensions(now>>2&1)
			m.run(m.r.SetSettings(&set, nil))
		case 7:
			if s.byte() == 1 {
				m.run(m.r.Drain(nil))
			}
		}
		if g := &m.r.xmit.gather; g.Open && (len(g.Recvs) > transmission.Limit || len(g.Recvs) >= int(g.Count)) {
			t.Fatalf("%d transmissions of %d held", len(g.Recvs), g.Count)
		}
	}
}

// FuzzGroupRequester: a hostile responder with it. Every call completes once, and
// no receive or credit is lost.
func FuzzGroupRequester(f *testing.F) {
	f.Add([]byte{})
	// A call with a long reply, which comes in two transmissions.
	f.Add([]byte("\x00\x10\x00\x20\x00\x01\x00\x00" + "\x02\x00\x00\x10abcdefghijklmnop\x00\x00\x14\x00\x00" + "\x02\x00\x00\x04abcd\x01\x00\x08\x00"))
	f.Add([]byte("\x00\x10\x00\x20\x00\x01\x00\x01\x40\x00\x00" + "\x02\x00\x00\x10abcdefghijklmnop\x00\x00\x0c\x01\x00\x10\x00\x00\x00\x00\x00" + "\x05\x00"))
	f.Fuzz(func(t *testing.T, data []byte) { fuzzGroupRequester(t, data, 4096, continuing()) })
}

// FuzzPlaceRequester: the same with results in target segments.
func FuzzPlaceRequester(f *testing.F) {
	f.Add([]byte{})
	// A call for two results, answered by one that is placed.
	f.Add([]byte("\x00\x10\x00\x20\x00\x01\x02\x10\x00\x20\x00\x00" + "\x02\x00\x00\x10abcdefghijklmnop\x00\x00\x0c\x01\x0b\x00\x10\x01\x00\x00\x01\x01\x00\x00\x00"))
	// Each placement is asked for results of two operations, too large for two pages.
	for place := range byte(4) {
		f.Add([]byte("\x07\x0f" + string([]byte{7 | place<<3}) + "\x00\x10\x00\x20\x00\x01\x02\x00\x00\x02\xff\x0f\x00\x20\x01" +
			"\x02\x00\x00\x10abcdefghijklmnop\x00\x00\x0c\x02\x0b\x00\x10\x01\x00\x00\x01\x01\x00\x06\x00"))
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzGroupRequester(t, data, placedReceive, *placingSettings()) })
}

func fuzzGroupRequester(t *testing.T, data []byte, receive uint32, set settings.Settings) {
	s := &script{b: data}
	on := set.Extensions & settings.ExtSendDDP
	m := &requesterModel{t: t, s: s, judge: newJudge(t, false)}
	m.judge.r.Gap() // messages that the referee did not see
	m.r = NewRequester(RequesterConfig{Receive: receive, ToldSend: receive, MaxReceives: 64, Version: 2, Settings: &set})
	m.run(m.r.Start(nil))
	m.r.Connected(receive, receive)
	told := m.r.chars.Own
	m.r.Heard(&told, nil)
	m.r.chars.Known = m.r.chars.Own
	for s.more() && !m.dead {
		switch s.byte() % 8 {
		case 0, 1:
			m.call()
		case 2, 3, 4:
			m.transmission()
		case 5:
			if o, ok := pick(s, &m.fences); ok {
				m.run(m.r.Fenced(o, nil))
			}
		case 6:
			if len(m.open) > 0 {
				m.run(m.r.Cancel(m.open[int(s.byte())%len(m.open)], nil))
			}
		case 7:
			set.CreditsMax = 1 + uint32(s.byte()%16)
			now := s.byte()
			set.Extensions = settings.ExtV2 | settings.Extensions(now)&3<<7 | on*settings.Extensions(now>>2&1)
			set.Placement = settings.Placement(now >> 3 & 3)
			m.run(m.r.SetSettings(&set, nil))
		}
		if came := len(m.r.gather.Recvs); !m.dead && (int(m.r.spend.Posted()) != m.posted || m.posted+came < int(m.r.spend.InFlight())) {
			t.Fatalf("%d receives posted, %d counted, %d calls", m.posted, m.r.spend.Posted(), m.r.spend.InFlight())
		}
	}
	m.run(m.r.Lost(errors.New("end"), nil))
	if len(m.open) != 0 {
		t.Fatalf("%d calls never complete", len(m.open))
	}
}

// transmission answers a call, or none, nearly truly.
func (m *requesterModel) transmission() {
	if m.posted == 0 {
		return
	}
	m.posted--
	s := m.s
	xid := uint32(s.byte())
	for _, o := range m.open {
		if o.state == outSent && s.byte()%4 != 1 {
			xid = o.XID
			break
		}
	}
	if m.r.gather.Open && s.byte()%8 != 7 {
		xid = m.r.gather.XID
	}
	var inv Invalidation
	if s.byte()%8 == 7 {
		inv = m.invalidation()
	}
	m.receive(s.transmission(rpcrdma2.Reply, xid), inv)
}

package conn

import (
	"bytes"
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// These fuzz targets take messages in wire format, like FuzzWire and FuzzReplies of
// package rpcrdma. They hand the messages straight to the roles, without
// connections, goroutines and memory. That makes them some twenty times as fast.

// between separates two messages of a script.
var between = []byte{0xff, 0xff}

// messageSeed is a header followed by a call.
func messageSeed(h rpcrdma1.Header, args ...byte) []byte {
	h.Version, h.Credits = max(h.Version, 1), 32
	return append(oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: h.XID, Program: 100003, Version: 3, Procedure: 6}), args...)
}

// FuzzMessages: whatever messages a peer sends, the responder keeps its rules, and
// it serves or ends the connection. The device and the service finish everything at
// once.
func FuzzMessages(f *testing.F) {
	segment := rpcrdma1.Segment{Handle: 1, Length: 9}
	done := rpcrdma1.Header{XID: 5, Version: 1, Proc: rpcrdma1.Done}
	f.Add(uint16(0), messageSeed(rpcrdma1.Header{XID: 1}))
	f.Add(uint16(0), messageSeed(rpcrdma1.Header{XID: 2, Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: segment}}}, 0, 0, 0, 9))
	f.Add(uint16(0), messageSeed(rpcrdma1.Header{XID: 2, Proc: rpcrdma1.NoMsg, Reads: []rpcrdma1.ReadSegment{{Segment: rpcrdma1.Segment{Handle: 1, Length: 80}}}}))
	f.Add(uint16(0x3ff), messageSeed(rpcrdma1.Header{XID: 3, HasReply: true, Reply: rpcrdma1.WriteChunk{segment}, Writes: []rpcrdma1.WriteChunk{{segment}}}))
	f.Add(uint16(settings.ExtReadReplies), bytes.Join([][]byte{messageSeed(rpcrdma1.Header{XID: 5}), done.Append(nil)}, between))
	f.Add(uint16(settings.ExtMSGP), messageSeed(rpcrdma1.Header{XID: 6, Proc: rpcrdma1.MsgP, Align: 512, Thresh: 64}, 0, 0, 0, 0))
	parts := rpcCallOf(9)
	f.Add(uint16(settings.ExtV2|0x3ff), bytes.Join([][]byte{
		plainMessage(8, rpcrdma2.Call, rpcCallOf(8)),
		optionMessage(9, rpcrdma2.Call, &rpcrdma2.XmtReq{Count: 2, ReceiveBuffers: 2, PayloadLength: uint32(len(parts))}, parts),
		optionMessage(10, rpcrdma2.Call, &rpcrdma2.XmtError{Code: rpcrdma2.BadContinuation}, nil),
	}, between))
	f.Fuzz(func(t *testing.T, extensions uint16, script []byte) {
		set := settings.Default()
		set.Extensions = settings.Extensions(extensions)
		m := &responderModel{t: t, posted: make(map[uint32]bool), judge: newJudge(t, true)}
		told := wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}
		m.judge.connect(told, told)
		m.r = NewResponder(ResponderConfig{
			PeerReceive: 4096, ToldSend: 4096, PeerInvalidates: true, Receive: 4096, MaxTransfer: 1 << 16, MaxReceives: 64, Settings: &set,
		})
		m.run(m.r.Start(nil))
		for message := range bytes.SplitSeq(script, between) {
			if m.dead || len(message) > 4096 {
				return
			}
			m.take(message)
			for m.step() {
			}
		}
		// The call of a group that is arriving may hold a credit.
		if !m.dead && m.r.Busy() > m.r.exposures.live+1 {
			t.Fatalf("%d calls are not finished, %d replies exposed", m.r.Busy(), m.r.exposures.live)
		}
	})
}

// take puts a message into the first posted receive.
func (m *responderModel) take(message []byte) {
	recv := uint32(0)
	for at := range m.posted {
		if recv == 0 || at < recv {
			recv = at
		}
	}
	if recv == 0 {
		m.t.Fatal("no receive posted")
	}
	delete(m.posted, recv)
	m.receive(recv, message)
}

// step finishes one pending operation, if there is one and the connection is up.
func (m *responderModel) step() bool {
	switch {
	case m.dead:
		return false
	case len(m.fetching) > 0:
		c := pop(&m.fetching)
		memory := make([][]byte, len(c.Reads.Chunks))
		for i := range memory {
			memory[i] = make([]byte, c.Reads.Chunks[i].Length)
			if i == 0 && c.Reads.Long() {
				copy(memory[i], oncrpc.AppendCall(nil, &oncrpc.Call{XID: c.XID}))
			}
		}
		m.run(m.r.Fetched(c, memory, nil))
	case len(m.delivered) > 0:
		c := pop(&m.delivered)
		// The XID says how long the reply is, and whether it has an item.
		var items []chunk.Item
		if c.XID%2 == 1 {
			items = []chunk.Item{{Pos: 28, Len: int(c.XID % 5000)}}
		}
		m.run(m.r.Reply(c, 28+int(c.XID%3000)&^3, items, nil))
	case len(m.exposing) > 0:
		m.run(m.r.Exposed(pop(&m.exposing), nil))
	case len(m.sending) > 0:
		m.r.Sent(pop(&m.sending))
	case len(m.fencing) > 0:
		m.r.Unexposed(pop(&m.fencing))
	default:
		return false
	}
	return true
}

func pop[T any](list *[]T) (v T) {
	v, *list = (*list)[0], (*list)[1:]
	return v
}

// FuzzAnswers: whatever messages a server sends, each waiting call completes once,
// with no more data than it has memory for. The word 0 at the start of a message
// stands for the XID of the next call.
func FuzzAnswers(f *testing.F) {
	h := rpcrdma1.Header{Version: 1, Credits: 9, HasReply: true, Reply: rpcrdma1.WriteChunk{{Handle: 2, Length: 100}}, Writes: []rpcrdma1.WriteChunk{{{Handle: 1, Length: 50}}}}
	f.Add(uint8(0), oncrpc.AppendAcceptedReply(h.Append(nil), 0))
	h.Proc = rpcrdma1.NoMsg
	f.Add(uint8(0), append(h.Append(nil), 0xff, 0xff, 1, 2, 3))
	h.Reads = []rpcrdma1.ReadSegment{{Segment: rpcrdma1.Segment{Handle: 3, Length: 200}}}
	f.Add(uint8(settings.ExtReadReplies), h.Append(nil))
	padded := rpcrdma1.Header{Version: 1, Credits: 9, Proc: rpcrdma1.MsgP, Align: 256, Thresh: 16}
	f.Add(uint8(settings.ExtMSGP), oncrpc.AppendAcceptedReply(padded.Append(nil), 0))
	f.Fuzz(func(t *testing.T, extensions uint8, script []byte) {
		set := settings.Default()
		set.Extensions = settings.Extensions(extensions)
		m := &requesterModel{t: t, judge: newJudge(t, false)}
		told := wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}
		m.judge.connect(told, told)
		m.r = NewRequester(RequesterConfig{Receive: 4096, ToldSend: 4096, MaxReceives: 64, Settings: &set})
		m.run(m.r.Start(nil))
		m.r.Connected(4096, 4096)
		m.r.MayRead()
		for range 3 {
			m.begin(&Outgoing{StreamLen: 60, MaxReply: 8000, Results: []int{9001}, Asked: []xdr.Span{{Begin: 40, End: 60}}})
		}
		for message := range bytes.SplitSeq(bytes.Clone(script), between) {
			if m.dead || m.posted == 0 || len(message) > 4096 {
				break
			}
			if len(message) >= 4 && len(m.open) > 0 && bytes.Equal(message[:4], make([]byte, 4)) {
				copy(message, xdr.AppendUint32(nil, m.open[0].XID))
			}
			m.posted--
			m.receive(message, Invalidation{})
			for !m.dead && len(m.readings) > 0 {
				m.run(m.r.ReplyFetched(pop(&m.readings), nil))
			}
			for !m.dead && len(m.fences) > 0 {
				m.run(m.r.Fenced(pop(&m.fences), nil))
			}
		}
		m.run(m.r.Lost(errors.New("end"), nil))
		if len(m.open) != 0 {
			t.Fatalf("%d calls never complete", len(m.open))
		}
	})
}

// valuesOf are the characteristics of an end with settings and receives of so many
// bytes.
func valuesOf(s *settings.Settings, receive uint32) rpcrdma2.Values {
	c := characteristicsOf(s)
	return c.Values(receive)
}

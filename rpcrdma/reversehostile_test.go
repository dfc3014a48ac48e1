package rpcrdma_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// reverseLiar is a lying server of a client that answers calls, after one call
// of the client.
func reverseLiar(t *testing.T, p rdmacm.Provider, h oncrpc.Handler, s rpcrdma.Settings) *liar {
	l := newLiarTo(t, p, kernelPrivateData, rpcrdma.DialConfig{Settings: &s, Handler: h}, func(*liar) {})
	done := begin(func() error { return echo(l.ctx, l.c, 8, 1) })
	call := l.next()
	reply, body := truth(call)
	echoed := make([]byte, 8)
	pattern(echoed, 1)
	l.send(reply, append(append(body, 0, 0, 0, 8), echoed...))
	l.ok(<-done)
	return l
}

// answer gives the header of what the client answers and the bytes behind it.
func (l *liar) answer(msg []byte) (h rpcrdma1.Header, body []byte) {
	l.t.Helper()
	return l.exchange(msg)
}

// TestReverseFromLiar: calls of a server that are wrong are answered as those of
// a client would be; chunks are refused. What it says of forward calls is not
// taken for a call, nor the other way round.
func TestReverseFromLiar(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		s := rpcrdma.DefaultSettings()
		backward(4)(&s)
		l := reverseLiar(t, p, service{}, s)
		h, body := l.answer(message(rpcrdma1.Header{XID: 7}, procNull))
		if h.XID != 7 || h.Proc != rpcrdma1.Msg || h.Credits != 4 || len(body) != 24 {
			t.Errorf("%+v, %x", h, body)
		}
		data := segment(l.sources, 0, 4096)
		chunks := map[string]rpcrdma1.Header{
			"read chunk":          {XID: 8, Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: data}}},
			"write chunk":         {XID: 8, Writes: []rpcrdma1.WriteChunk{{data}}},
			"empty write chunk":   {XID: 8, Writes: []rpcrdma1.WriteChunk{{}}},
			"reply chunk":         {XID: 8, HasReply: true, Reply: rpcrdma1.WriteChunk{data}},
			"padded":              {XID: 8, Proc: rpcrdma1.MsgP, Align: 512, Thresh: 512},
			"position-zero chunk": {XID: 8, Proc: rpcrdma1.NoMsg, Reads: []rpcrdma1.ReadSegment{{Segment: data}}},
		}
		for name, h := range chunks {
			h.Version = 1
			msg := message(h, procNull)
			if h.Proc == rpcrdma1.NoMsg {
				msg = h.Append(nil)
			}
			if got, _ := l.answer(msg); got.XID != 8 || got.Proc != rpcrdma1.Error || got.Err != rpcrdma1.ErrChunk {
				t.Errorf("%s: %+v", name, got)
			}
		}
		// Errors are not answered, nor is what is no call: a reply to none, DONE.
		for _, proc := range []rpcrdma1.Proc{rpcrdma1.Error, rpcrdma1.Done} {
			l.send(rpcrdma1.Header{XID: 9, Version: 1, Proc: proc, Err: rpcrdma1.ErrChunk}, nil)
		}
		l.send(rpcrdma1.Header{XID: 9, Version: 1}, oncrpc.AppendAcceptedReply(nil, 9))
		if h, _ = l.answer(message(rpcrdma1.Header{XID: 10}, procNull)); h.XID != 10 || h.Proc != rpcrdma1.Msg {
			t.Errorf("%+v", h)
		}
		if st := l.c.Stats(); st.ReverseCalls != 8 || st.ReverseReplies != 2 || st.Errors != 6 || st.BadXIDs != 2 || st.RDMAReads != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestSameXIDBothWays: one XID is live in both directions.
func TestSameXIDBothWays(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		s := rpcrdma.DefaultSettings()
		backward(4)(&s)
		l := reverseLiar(t, p, service{}, s)
		done := begin(func() error { return plain(l.ctx, l.c, procNull) })
		call := l.next()
		if h, _ := l.answer(message(rpcrdma1.Header{XID: call.XID}, procNull)); h.XID != call.XID || h.Proc != rpcrdma1.Msg {
			t.Errorf("%+v", h)
		}
		l.send(truth(call))
		should(t, <-done)
	})
}

// TestReverseMalformed: a call of a server that can't be decoded, or is in a chunk,
// is answered with an error, whatever its XID. A call of the client with the same XID
// goes on, and the credits that the server asks for are not a grant.
func TestReverseMalformed(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		s := rpcrdma.DefaultSettings()
		backward(4)(&s)
		s.Extensions |= rpcrdma.ExtReadReplies
		l := reverseLiar(t, p, service{}, s)
		granted := l.c.Info().CreditsGranted
		data := segment(l.sources, 0, 4096)
		for name, m := range map[string]struct {
			same bool // the XID of a call in flight
			h    rpcrdma1.Header
			proc byte
			code rpcrdma1.ErrCode
		}{
			"too many write chunks":           {false, rpcrdma1.Header{Writes: slices.Repeat([]rpcrdma1.WriteChunk{{data}}, 17)}, 0, rpcrdma1.ErrChunk},
			"too many write chunks, same XID": {true, rpcrdma1.Header{Writes: slices.Repeat([]rpcrdma1.WriteChunk{{data}}, 17)}, 0, rpcrdma1.ErrChunk},
			"read chunk, same XID":            {true, rpcrdma1.Header{Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: data}}}, 0, rpcrdma1.ErrChunk},
			"version 3":                       {false, rpcrdma1.Header{Version: 3}, 0, rpcrdma1.ErrVers},
			"version 3, same XID":             {true, rpcrdma1.Header{Version: 3}, 0, rpcrdma1.ErrVers},
			"version 2":                       {false, rpcrdma1.Header{Version: 2}, 0, rpcrdma1.ErrVers},
			"unknown type":                    {false, rpcrdma1.Header{}, 9, rpcrdma1.ErrChunk},
			"unknown type, same XID":          {true, rpcrdma1.Header{}, 9, rpcrdma1.ErrChunk},
		} {
			done := begin(func() error { return plain(l.ctx, l.c, procNull) })
			forward := l.next()
			m.h.XID, m.h.Credits = forward.XID+1000, 9000
			if m.same {
				m.h.XID = forward.XID
			}
			version := max(m.h.Version, 1)
			m.h.Version = 1
			msg := message(m.h, procNull)
			msg[7], msg[15] = byte(version), m.proc
			var got rpcrdma1.Header
			l.post(msg)
			answer := l.receive()
			if answer[7] != byte(version) {
				t.Errorf("%s: answered in version %d", name, answer[7])
			}
			answer[7] = 1
			_, err := got.Decode(answer)
			l.ok(err)
			if got.XID != m.h.XID || got.Proc != rpcrdma1.Error || got.Err != m.code || got.Credits != 4 {
				t.Errorf("%s: %+v", name, got)
			}
			reply, body := truth(forward)
			reply.Credits = granted
			l.send(reply, body)
			if err := <-done; err != nil {
				t.Errorf("%s: the client's call: %v", name, err)
			}
			if n := l.c.Info().CreditsGranted; n != granted {
				t.Errorf("%s: grants %d, was %d", name, n, granted)
			}
		}
		if st := l.c.Stats(); st.BadXIDs != 0 || st.RDMAReads != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// TestReverseOverrun: a server that makes more calls than it was granted loses
// the connection; a client that answers none is not troubled by any.
func TestReverseOverrun(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		s := rpcrdma.DefaultSettings()
		backward(2)(&s)
		h := handlerFunc(func(ctx context.Context, _ *call, _ *reply) error {
			<-ctx.Done()
			return ctx.Err()
		})
		l := reverseLiar(t, p, h, s)
		for i := range 3 {
			l.post(message(rpcrdma1.Header{XID: uint32(i)}, procNull))
		}
		l.ended()
		<-l.c.Done()
		if err := l.c.Err(); !errors.Is(err, credit.ErrOverrun) {
			t.Error(err)
		}
	})
}

// TestReverseOff: without the extension a call of a server is answered as by a
// client without programs, chunks and headers that make no sense as by any. The
// calls of the client go on beside them.
func TestReverseOff(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		s := rpcrdma.DefaultSettings()
		forth(&s)
		l := reverseLiar(t, p, service{}, s)
		if b := l.c.Info().Backchannel; b.Open {
			t.Errorf("%+v", b)
		}
		done := begin(func() error { return plain(l.ctx, l.c, procNull) })
		forward := l.next()
		for range 40 {
			h, body := l.answer(message(rpcrdma1.Header{XID: forward.XID}, procNull))
			_, err := oncrpc.DecodeReply(body, new(oncrpc.ReplyHeader))
			if e, ok := errors.AsType[*oncrpc.AcceptError](err); h.XID != forward.XID || !ok || e.Stat != oncrpc.ProgUnavail {
				t.Fatalf("%+v: %v", h, err)
			}
		}
		l.send(truth(forward))
		should(t, <-done)
		if st := l.c.Stats(); st.BadXIDs != 0 || st.ReverseCalls != 40 {
			t.Errorf("%+v", st)
		}
	})
}

// TestReverseInvalidates: a call of a server that invalidates our memory ends the
// connection.
func TestReverseInvalidates(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		if d := p.Device().Attr(); !d.SendInvalidate || !d.MemWindowType2B {
			should(t, p.Close()) // nothing can be invalidated
			return
		}
		s := rpcrdma.DefaultSettings()
		backward(2)(&s)
		l := reverseLiar(t, p, service{}, s)
		read := begin(func() error { return readBack(l.ctx, l.c, procRead, 9000, 9000, 1) })
		call := l.next()
		msg := message(rpcrdma1.Header{XID: 1}, procNull)
		copy(l.raw.send.Bytes(), msg)
		_, err := l.qp.PostSend([]verbs.SendWR{{
			Op: verbs.OpSendInvalidate, InvalidateRKey: call.Writes[0][0].Handle, Flags: verbs.SendSignaled,
			SGL: []verbs.SGE{{MR: l.raw.send, Length: len(msg)}},
		}})
		l.ok(err)
		l.ended()
		<-l.c.Done()
		for _, err := range []error{<-read, l.c.Err()} {
			if !errors.Is(err, rpcrdma.ErrInvalidated) {
				t.Error(err)
			}
		}
	})
}

// TestReverseLies: what a client answers that is wrong fails the call, and
// nothing else; replies to no call, any number of them, are dropped and counted.
func TestReverseLies(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: backward(8)})
		r := b.dialRaw(kernelPrivateData)
		conn := <-b.conns
		r.exchange(message(rpcrdma1.Header{XID: 1}, procNull))
		strays := func(n int) {
			for i := range n {
				r.post(reverseReply(uint32(i), 3))
			}
			r.exchange(message(rpcrdma1.Header{XID: 1}, procNull)) // all have arrived
		}
		strays(30)
		conn.OpenBackchannel()
		strays(40)
		strays(50)
		segment := rpcrdma1.Segment{Handle: 1, Length: 100}
		lies := []struct {
			name string
			msg  func(xid uint32) []byte
			want error
		}{
			{"true", func(xid uint32) []byte { return reverseReply(xid, 8) }, nil},
			{"error", func(xid uint32) []byte {
				return (&rpcrdma1.Header{XID: xid, Version: 1, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrChunk}).Append(nil)
			}, errRefused},
			{"read chunk", func(xid uint32) []byte {
				h := rpcrdma1.Header{XID: xid, Version: 1, Reads: []rpcrdma1.ReadSegment{{Position: 24, Segment: segment}}}
				return oncrpc.AppendAcceptedReply(h.Append(nil), xid)
			}, rpcrdma.ErrBadReply},
			{"write chunk", func(xid uint32) []byte {
				h := rpcrdma1.Header{XID: xid, Version: 1, Writes: []rpcrdma1.WriteChunk{{segment}}}
				return oncrpc.AppendAcceptedReply(h.Append(nil), xid)
			}, rpcrdma.ErrBadReply},
			{"another XID inside", func(xid uint32) []byte {
				h := rpcrdma1.Header{XID: xid, Version: 1}
				return oncrpc.AppendAcceptedReply(h.Append(nil), xid+1)
			}, rpcrdma.ErrBadReply},
			{"cut short", func(xid uint32) []byte { m := reverseReply(xid, 8); return m[:len(m)-4] }, rpcrdma.ErrBadReply},
			{"grants nothing", func(xid uint32) []byte { return reverseReply(xid, 0) }, nil},
			{"grants far too much", func(xid uint32) []byte { return reverseReply(xid, 10000) }, nil},
		}
		for _, lie := range lies {
			done := begin(func() error { return plain(b.ctx, conn, procNull) })
			var h rpcrdma1.Header
			call := r.take(&h)
			if x, mtype, _ := oncrpc.MessageType(call); x != h.XID || mtype != oncrpc.MsgCall || h.Credits != 8 {
				t.Errorf("%s: call %+v, %x", lie.name, h, call)
			}
			r.post(lie.msg(h.XID))
			err := <-done
			if peer := (*rpcrdma.PeerError)(nil); errors.As(err, &peer) {
				err = errRefused
			}
			if !errors.Is(err, lie.want) {
				t.Errorf("%s: %v", lie.name, err)
			}
		}
		if h, _ := r.exchange(message(rpcrdma1.Header{XID: 2}, procNull)); h.Proc != rpcrdma1.Msg || h.XID != 2 {
			t.Errorf("%+v", h)
		}
		s := conn.Stats()
		if s.Ignored != 120 || s.BadXIDs != 90 || s.ReverseCalls != uint64(len(lies)) || s.ReverseReplies != 4 || s.Errors != 4 || s.BadReplies != 4 || s.Calls != 5 {
			t.Errorf("%+v", s)
		}
	})
}

// errRefused stands for any rpcrdma.PeerError.
var errRefused = errors.New("refused")

// reverseReply is a client's reply to a call of the server without results.
func reverseReply(xid, credits uint32) []byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: credits}
	return oncrpc.AppendAcceptedReply(slices.Clip(h.Append(nil)), xid)
}

package rpcrdma_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/credit"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// TestWireAnswers compares answers with their bytes (RFC 8166 §4).
func TestWireAnswers(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: func(s *rpcrdma.Settings) { s.CreditsMax = 8 }})
		r := b.dialRaw(kernelPrivateData)
		if got := r.id.Peer().PrivateData; !bytes.HasPrefix(got, unhex(t, "f6ab0e1801010303")) {
			t.Errorf("private data %x", got)
		}
		for _, tc := range []struct{ name, send, want string }{
			{"another version", "0000000100000002000000200000000000000000", "000000010000000200000008000000040000000100000001" + "00000001"},
			{"unknown type", "00000002000000010000002000000007", "0000000200000001000000080000000400000002"},
			{"truncated lists", "0000000300000001000000200000000000000001", "0000000300000001000000080000000400000002"},
			{"MSGP", "000000040000000100000020000000020000000400000400000000000000000000000000", "0000000400000001000000080000000400000002"},
			{"XID of the RPC message", "00000005000000010000002000000000000000000000000000000000" + "0000000600000000", "0000000500000001000000080000000400000002"},
			// NULL: MSG, empty lists, MSG_ACCEPTED, AUTH_NONE, SUCCESS.
			{"after that", "00000007000000010000002000000000000000000000000000000000" +
				"0000000700000000000000022000000100000001000000000000000000000000" + "0000000000000000",
				"00000007000000010000000800000000000000000000000000000000" + "000000070000000100000000000000000000000000000000"},
		} {
			r.post(unhex(t, tc.send))
			if got := r.receive(); !bytes.Equal(got, unhex(t, tc.want)) {
				t.Errorf("%s: %x, want %s", tc.name, got, tc.want)
			}
		}
	})
}

// TestKernelShapes: a READ and a WRITE as a kernel client sends them.
func TestKernelShapes(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		r := b.dialRaw(kernelPrivateData)
		data := r.memory(3*4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		pad := r.memory(4, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)

		// 9001 bytes into two segments and one for padding, which stays as it is.
		h := rpcrdma1.Header{XID: 1, Writes: []rpcrdma1.WriteChunk{{segment(data, 100, 5000), segment(data, 6000, 4001), segment(pad, 0, 4)}}}
		got, body := r.exchange(message(h, procRead, binary.BigEndian.AppendUint64(nil, 9001<<32|77)...))
		want := make([]byte, 9001)
		pattern(want, 77)
		mem := data.Bytes()
		if !bytes.Equal(mem[100:5100], want[:5000]) || !bytes.Equal(mem[6000:10001], want[5000:]) || mem[99]+mem[5100]+mem[10001] != 0 {
			t.Error("data is not where it belongs")
		}
		w := got.Writes[0]
		if got.Proc != rpcrdma1.Msg || len(body) != 24+12 || w[0].Length != 5000 || w[1].Length != 4001 || w[2].Length != 0 {
			t.Errorf("%+v, %d bytes", got, len(body))
		}

		// WRITE of 4095 bytes from an unpadded read chunk.
		pattern(mem[:4095], 5)
		h = rpcrdma1.Header{XID: 2, Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: r.window(data, 0, 4095, verbs.AccessRemoteRead)}}}
		_, body = r.exchange(message(h, procWrite, 0, 0, 0x0f, 0xff, 0, 0, 0, 9))
		if len(body) != 36 || binary.BigEndian.Uint32(body[24:]) != 4095 || binary.BigEndian.Uint32(body[32:]) != 9 {
			t.Errorf("%x", body)
		}
	})
}

// TestManySegments: chunks of as many segments as a header may have, more
// requests than the send queue has slots, from several calls at once.
func TestManySegments(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: func(s *rpcrdma.Settings) { s.InlineReceiveSize, s.InlineSendMax = 8192, 8192 }})
		r := b.dialRaw(wire.PrivateData{SendSize: 8192, ReceiveSize: 8192}.Append(nil))
		const n, size = rpcrdma1.MaxSegments, 17
		data := r.memory(4*n*size, verbs.AccessLocalWrite|verbs.AccessRemoteWrite|verbs.AccessRemoteRead)
		mem := data.Bytes()
		pattern(mem[:2*n*size], 3)
		r.exchange(message(rpcrdma1.Header{XID: 99}, procNull))
		for call := range 4 {
			h := rpcrdma1.Header{XID: uint32(call)}
			var w rpcrdma1.WriteChunk
			for i := range n { // last segment first
				s := segment(data, call*n*size+(n-1-i)*size, size)
				h.Reads = append(h.Reads, rpcrdma1.ReadSegment{Position: 44, Segment: s})
				w = append(w, s)
			}
			total := uint32(n * size)
			if call < 2 {
				r.post(message(h, procWrite, binary.BigEndian.AppendUint64(nil, uint64(total)<<32|9)...))
			} else {
				h.Reads, h.Writes = nil, []rpcrdma1.WriteChunk{w}
				r.post(message(h, procRead, binary.BigEndian.AppendUint64(nil, uint64(total)<<32|9)...))
			}
		}
		reversed := func(b []byte) (out []byte) {
			for i := n - 1; i >= 0; i-- {
				out = append(out, b[i*size:(i+1)*size]...)
			}
			return out
		}
		want := make([]byte, n*size)
		pattern(want, 9)
		for range 4 {
			var h rpcrdma1.Header
			answer := r.take(&h)
			if h.Proc != rpcrdma1.Msg {
				t.Fatalf("%+v", h)
			}
			mine := mem[int(h.XID)*n*size : int(h.XID+1)*n*size]
			if h.XID < 2 {
				if sum := binary.BigEndian.Uint32(answer[28:]); sum != crc32.ChecksumIEEE(reversed(mine)) {
					t.Errorf("call %d: another checksum", h.XID)
				}
			} else if !bytes.Equal(reversed(mine), want) {
				t.Errorf("call %d: other data", h.XID)
			}
		}
	})
}

// TestHostileSegments: memory that is not there ends that connection, with a
// reason, and no other.
func TestHostileSegments(t *testing.T) {
	bad := rpcrdma1.Segment{Handle: 0xdeadbeef, Length: 5000, Offset: 4096}
	messages := map[string][]byte{
		"read":  message(rpcrdma1.Header{XID: 1, Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: bad}}}, procWrite, 0, 0, 0x13, 0x88, 0, 0, 0, 0),
		"write": message(rpcrdma1.Header{XID: 1, Writes: []rpcrdma1.WriteChunk{{bad}}}, procRead, binary.BigEndian.AppendUint64(nil, 5000<<32)...),
		"reply": message(rpcrdma1.Header{XID: 1, HasReply: true, Reply: rpcrdma1.WriteChunk{bad}}, procRead, binary.BigEndian.AppendUint64(nil, 4900<<32)...),
	}
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		good, _ := b.dial(nil)
		before := b.l.Memory().Taken
		for name, msg := range messages {
			r := b.dialRaw(kernelPrivateData)
			conn := <-b.conns
			r.post(msg)
			r.ended()
			<-conn.Done()
			var end *rpcrdma.Error
			if err := conn.Err(); !errors.As(err, &end) || !strings.Contains(err.Error(), r.id.LocalAddr().String()) {
				t.Errorf("%s: %v", name, err)
			}
			if err := echo(b.ctx, good, 9000, 1); err != nil {
				t.Errorf("%s: another connection: %v", name, err)
			}
		}
		if m := b.l.Memory().Taken; m > before+64*4096 {
			t.Errorf("%d bytes taken, %d before", m, before)
		}
	})
}

// TestOverrun: more calls than granted end the connection.
func TestOverrun(t *testing.T) {
	h := newBlocking()
	b := newBed(t, providers[0].make(t), bedConfig{handler: h, settings: func(s *rpcrdma.Settings) { s.CreditsMax = 4 }})
	r := b.dialRaw(nil)
	conn := <-b.conns
	for i := range 5 {
		r.post(message(rpcrdma1.Header{XID: uint32(i)}, procEcho, 0, 0, 0, 0))
	}
	r.ended()
	<-conn.Done()
	if err := conn.Err(); !errors.Is(err, credit.ErrOverrun) {
		t.Error(err)
	}
}

// TestNoReadsAgreed: a client that offers no RDMA Reads at connect gets an error for a call
// with read chunks, and its other calls go on.
func TestNoReadsAgreed(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		r := &raw{t: t, ctx: b.ctx}
		var err error
		r.id, err = b.raw.Resolve(b.ctx, b.l.Addr().String())
		r.ok(err)
		r.setUp()
		r.ok(r.id.Connect(b.ctx, rdmacm.ConnParam{PrivateData: kernelPrivateData, InitiatorDepth: 1}))
		t.Cleanup(r.close)
		conn := <-b.conns
		mr := r.memory(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		item := rpcrdma1.Header{XID: 1, Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: segment(mr, 0, 4096)}}}
		long := rpcrdma1.Header{XID: 2, Version: 1, Credits: 32, Proc: rpcrdma1.NoMsg, Reads: []rpcrdma1.ReadSegment{{Segment: segment(mr, 0, 4096)}}}
		for _, msg := range [][]byte{message(item, procWrite, 0, 0, 0x10, 0, 0, 0, 0, 9), long.Append(nil)} {
			if h, _ := r.exchange(msg); h.Proc != rpcrdma1.Error || h.Err != rpcrdma1.ErrChunk {
				t.Errorf("%+v", h)
			}
		}
		if h, _ := r.exchange(message(rpcrdma1.Header{XID: 3}, procEcho, 0, 0, 0, 0)); h.Proc != rpcrdma1.Msg {
			t.Errorf("%+v", h)
		}
		if s := conn.Stats(); s.RDMAReads != 0 || s.Errors != 2 {
			t.Errorf("%+v", s)
		}
	})
}

// TestTooLongForReceive: a Send beyond inline.receive_size ends the
// connection.
func TestTooLongForReceive(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	r := b.dialRaw(nil)
	conn := <-b.conns
	r.post(make([]byte, 4097))
	r.ended()
	<-conn.Done()
	if conn.Err() == nil {
		t.Error("no reason")
	}
}

// TestNoPrivateData: a peer that says nothing gets 1024 bytes inline and no
// invalidation.
func TestNoPrivateData(t *testing.T) {
	for name, pd := range map[string][]byte{
		"none": nil, "short": kernelPrivateData[:7], "foreign": []byte("anything else"),
		"another version": append(unhex(t, "f6ab0e1802"), kernelPrivateData[5:]...),
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, providers[0].make(t), bedConfig{})
			r := b.dialRaw(pd)
			conn := <-b.conns
			if i := conn.Info(); i.InlineSend != wire.DefaultSize || i.RemoteInvalidation {
				t.Errorf("%+v", i)
			}
			data := r.memory(4096, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
			h := rpcrdma1.Header{XID: 1, Writes: []rpcrdma1.WriteChunk{{segment(data, 0, 4096)}}}
			got, _ := r.exchange(message(h, procRead, binary.BigEndian.AppendUint64(nil, 1000<<32)...))
			if got.Writes[0][0].Length != 1000 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestShortMessages: dropped and counted; the connection goes on.
func TestShortMessages(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	r := b.dialRaw(nil)
	conn := <-b.conns
	for i := range 100 {
		r.post(make([]byte, i%16))
		r.post(unhex(t, "000000090000000100000020"+"00000003")) // DONE
		if i%4 == 3 {
			r.exchange(message(rpcrdma1.Header{XID: uint32(i)}, procNull))
		}
	}
	if s := conn.Stats(); s.Dropped != 100 || s.Ignored != 100 || s.Replies != 25 {
		t.Errorf("%+v", s)
	}
}

// TestDropAnywhere: the network ends a busy connection after any number of
// messages; both sides end, and nothing is left (newBed checks).
func TestDropAnywhere(t *testing.T) {
	p := loopback.New(loopback.Config{})
	b := newBed(t, p, bedConfig{})
	for n := 1; n < 60; n++ {
		p.Fabric().SetFaults(loopback.Faults{DropAfter: n})
		c, conn := b.dial(nil)
		rng := rand.New(rand.NewPCG(4, uint64(n)))
		done := make(chan struct{})
		for range 3 {
			go func(rng *rand.Rand) {
				defer func() { done <- struct{}{} }()
				for anyCall(b.ctx, c, rng) == nil {
				}
			}(rand.New(rand.NewPCG(rng.Uint64(), 1)))
		}
		for range 3 {
			<-done
		}
		<-c.Done()
		<-conn.Done()
		if c.Err() == nil && conn.Err() == nil {
			t.Errorf("after %d messages: no reason", n)
		}
	}
	if m := b.l.Memory().Taken; m > 4096 {
		t.Errorf("%d bytes taken", m)
	}
}

// TestFailingRequests: each kind of request fails once in a while.
func TestFailingRequests(t *testing.T) {
	p := loopback.New(loopback.Config{})
	b := newBed(t, p, bedConfig{})
	for _, op := range []verbs.Opcode{verbs.OpSend, verbs.OpSendInvalidate, verbs.OpRDMAWrite, verbs.OpRDMARead, verbs.OpLocalInvalidate, verbs.OpBindMW} {
		for _, status := range []verbs.WCStatus{verbs.WCRemAccessErr, verbs.WCRetryExcErr} {
			p.Fabric().SetFaults(loopback.Faults{})
			c, conn := b.dial(nil)
			p.Fabric().SetFaults(loopback.Faults{Request: func(r loopback.Request) verbs.WCStatus {
				if r.Op == op && r.Seq > 20 {
					return status
				}
				return verbs.WCSuccess
			}})
			rng := rand.New(rand.NewPCG(5, uint64(op)))
			s := rpcrdma.DefaultSettings()
			for i := 0; ; i++ {
				s.RemoteInvalidationUse = i%2 == 0 // so that we invalidate ourselves, too
				conn.SetSettings(&s)
				if anyCall(b.ctx, c, rng) != nil {
					break
				}
			}
			<-c.Done()
			<-conn.Done()
			if c.Err() == nil && conn.Err() == nil {
				t.Errorf("opcode %d, %v: no reason", op, status)
			}
		}
	}
}

// FuzzWire: whatever messages a peer sends, it gets answers or loses its
// connection, and leaves nothing behind, whichever extensions are on.
func FuzzWire(f *testing.F) {
	done := rpcrdma1.Header{XID: 5, Version: 1, Proc: rpcrdma1.Done}
	f.Add(uint16(settings.ExtReadReplies), append(append(message(rpcrdma1.Header{XID: 5}, procRead, 0, 0, 0x1f, 0x40), 0xff, 0xff), done.Append(nil)...))
	padded := rpcrdma1.Header{XID: 6, Proc: rpcrdma1.MsgP, Align: 512, Thresh: 64}
	f.Add(uint16(settings.ExtMSGP), message(padded, procWrite, 0, 0, 0, 0))
	f.Add(uint16(settings.ExtCCP), message(rpcrdma1.Header{XID: 7}, procNull))
	f.Add(uint16(0), message(rpcrdma1.Header{XID: 1}, procNull))
	f.Add(uint16(0), message(rpcrdma1.Header{XID: 2, Reads: []rpcrdma1.ReadSegment{{Position: 44, Segment: rpcrdma1.Segment{Handle: 1, Length: 9}}}}, procWrite, 0, 0, 0, 9))
	f.Add(uint16(0x3ff), append(message(rpcrdma1.Header{XID: 3, HasReply: true, Reply: rpcrdma1.WriteChunk{{Handle: 1, Length: 9}}}, procEcho, 0, 0, 0, 0), 0xff, 0xff, 3, 3, 3))
	for _, g := range hostileGroups(rpcrdma2.Segment{Handle: 1, Length: 8}) {
		f.Add(uint16(rpcrdma.ExtV2|continuation|rpcrdma.ExtSendDDP), bytes.Join(append([][]byte{null2(9)}, g.send...), []byte{0xff, 0xff}))
	}
	type fixture struct {
		*bed
		shared verbs.MR // another connection's
		live   verbs.Live
		taken  int64
	}
	beds := keep(f, func(t testing.TB) *fixture {
		b := &fixture{bed: newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour})}
		b.shared = b.dialRaw(nil).memory(1<<16, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
		<-b.conns
		b.live, b.taken = b.raw.Device().(verbs.LiveCounter).Live(), b.l.Memory().Taken
		return b
	})
	f.Fuzz(func(t *testing.T, extensions uint16, script []byte) {
		b := beds.take(t)
		t.Cleanup(func() {
			live := b.raw.Device().(verbs.LiveCounter).Live()
			live.MRs = b.live.MRs // the listener keeps memory for what comes
			if live != b.live {
				t.Errorf("objects left: %+v, %+v before", live, b.live)
			}
		})
		b.settings.Extensions = settings.Extensions(extensions)
		shared := b.shared
		script = bytes.Clone(script)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		r := &raw{t: t, ctx: ctx, places: 1} // nobody reads what comes
		b.connectRaw(r, b.l.Addr().String(), kernelPrivateData, rawBuffers)
		up := <-b.conns
		mine := r.memory(1<<16, verbs.AccessLocalWrite|verbs.AccessRemoteRead|verbs.AccessRemoteWrite)
		for part := range bytes.SplitSeq(script, []byte{0xff, 0xff}) {
			// Let handles 1 and 2 mean memory that is there, and that is not its own.
			for i := 0; i+16 <= len(part); i += 4 {
				switch binary.BigEndian.Uint32(part[i:]) {
				case 1:
					binary.BigEndian.PutUint32(part[i:], mine.RKey())
					binary.BigEndian.PutUint64(part[i+8:], mine.Addr())
				case 2:
					binary.BigEndian.PutUint32(part[i:], shared.RKey())
					binary.BigEndian.PutUint64(part[i+8:], shared.Addr())
				}
			}
			if r.qp.State() != verbs.QPRTS || len(part) > rawSize {
				break
			}
			r.post(part)
		}
		r.id.Disconnect()
		<-up.Done()
		if m := b.l.Memory().Taken; m > 1<<20 {
			t.Fatalf("%d bytes taken", m)
		}
		up.Close()
		if m := b.l.Memory().Taken; m != b.taken {
			t.Fatalf("%d bytes taken, %d before", m, b.taken)
		}
	})
}

// TestStrayReadChunk: a read chunk that is no opaque of the arguments, or not as
// long as its word says, is answered with GARBAGE_ARGS (RFC 5666 §3.4).
func TestStrayReadChunk(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: func(s *rpcrdma.Settings) { s.RemoteInvalidationUse = false }})
		r := b.dialRaw(kernelPrivateData)
		mr := r.memory(4096, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		whole := append(xdr.AppendOpaque(nil, []byte("abcdefgh")), 0, 0, 0, 9)
		apart := []byte{0, 0, 0, 8, 0, 0, 0, 9}
		for i, c := range []struct {
			proc, position uint32 // the arguments begin at 40
			length         int
			args           []byte
			ok             bool
		}{
			{procWrite, 44, 8, apart, true},
			{procWrite, 44, 9, apart, false},
			{procWrite, 40, 8, whole, false},
			{procWrite, 48, 8, whole, false},
			{procWrite, 56, 8, whole, false},
			{procNull, 40, 8, nil, false},
		} {
			h := rpcrdma1.Header{XID: uint32(i), Reads: []rpcrdma1.ReadSegment{{Position: c.position, Segment: segment(mr, 0, c.length)}}}
			got, body := r.exchange(message(h, c.proc, c.args...))
			_, err := oncrpc.DecodeReply(body, new(oncrpc.ReplyHeader))
			e, refused := errors.AsType[*oncrpc.AcceptError](err)
			if got.Proc != rpcrdma1.Msg || (err == nil) != c.ok || (refused && e.Stat != oncrpc.GarbageArgs) {
				t.Errorf("%+v: %+v, %v", c, got, err)
			}
		}
	})
}

// TestCopyOfCall: a copy of a call in progress is not carried out; once the call is
// answered, an error brings the copy's credit back.
func TestCopyOfCall(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		begun, release := make(chan struct{}, 3), make(chan struct{})
		h := handlerFunc(func(context.Context, *call, *reply) error {
			begun <- struct{}{}
			<-release
			return nil
		})
		b := newBed(t, p, bedConfig{handler: h, settings: func(s *rpcrdma.Settings) { s.CreditsMax = 8 }})
		r := b.dialRaw(kernelPrivateData)
		conn := <-b.conns
		for range 3 {
			r.post(message(rpcrdma1.Header{XID: 7}, procNull))
		}
		r.post(message(rpcrdma1.Header{XID: 8, Version: 3}, procNull))
		<-begun
		for i := range 4 {
			var got rpcrdma1.Header
			answer := r.receive()
			version := answer[7]
			answer[7] = 1
			if _, err := got.Decode(answer); err != nil {
				t.Fatal(err)
			}
			switch want := map[bool]rpcrdma1.Proc{true: rpcrdma1.Msg, false: rpcrdma1.Error}[i == 1]; {
			case i == 0: // all have arrived
				if got.XID != 8 || version != 3 {
					t.Errorf("%+v", got)
				}
				close(release)
			case got.XID != 7 || got.Proc != want || got.Credits == 0:
				t.Errorf("answer %d: %+v", i, got)
			}
		}
		if s := conn.Stats(); s.Calls != 1 || s.Duplicates != 2 || len(begun) > 0 {
			t.Errorf("%+v, carried out %d times more", s, len(begun))
		}
	})
}

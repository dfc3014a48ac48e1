package rpcrdma_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// optional is a message of an optional operation.
func optional(xid uint32, d rpcrdma2.Direction, body rpcrdma2.Body, payload []byte) []byte {
	h := rpcrdma2.Header{
		Header:    rpcrdma1.Header{XID: xid, Version: rpcrdma2.Version, Credits: 32, Proc: rpcrdma2.Optional},
		Direction: d, Option: body.Type(), Info: body.Append(nil),
	}
	return append(h.Append(nil), payload...)
}

// rpcCall is a call of the test service without a transport header.
func rpcCall(xid, proc uint32, args []byte) []byte {
	return append(oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: 0x20000001, Version: 1, Procedure: proc}), args...)
}

// asGroup cuts a call into transmissions of n bytes, after what body says.
func asGroup(xid uint32, body rpcrdma2.XmtReq, call []byte, n int) (group [][]byte) {
	body.Count = uint32((len(call) + n - 1) / n)
	for i := uint32(0); len(call) > 0; i++ {
		part := call[:min(n, len(call))]
		call = call[len(part):]
		if i == 0 {
			body.PayloadLength = uint32(len(part))
			group = append(group, optional(xid, rpcrdma2.Call, &body, part))
			continue
		}
		group = append(group, continuing(xid, i, part))
	}
	return group
}

// continuing is a further transmission of a call.
func continuing(xid, number uint32, part []byte) []byte {
	return optional(xid, rpcrdma2.Call, &rpcrdma2.XmtCont{Number: number, Initial: rpcrdma2.OptXmtReq, PayloadLength: uint32(len(part))}, part)
}

// rejoin gives the next reply of a server, whatever transmissions it takes, and
// what it is: "reply", "error N" or "XMTERR N".
func (r *raw) rejoin() (xid uint32, what string, body []byte) {
	r.t.Helper()
	var h rpcrdma2.Header
	body = r.take(&h)
	switch {
	case h.Proc == rpcrdma2.Error:
		return h.XID, fmt.Sprintf("error %d", h.Err), nil
	case h.Proc != rpcrdma2.Optional:
		return h.XID, "reply", body
	case h.Option == rpcrdma2.OptXmtError:
		var e rpcrdma2.XmtError
		r.ok(e.Decode(h.Info))
		return h.XID, fmt.Sprintf("XMTERR %d", e.Code), nil
	}
	var first rpcrdma2.XmtResp
	r.ok(first.Decode(h.Info))
	whole := bytes.Clone(body[:first.PayloadLength])
	for i := uint32(1); i < first.Count; i++ {
		part := r.take(&h)
		var c rpcrdma2.XmtCont
		r.ok(c.Decode(h.Info))
		if c.Number != i || c.Initial != rpcrdma2.OptXmtResp {
			r.t.Fatalf("transmission %d of the reply is %+v", i, c)
		}
		whole = append(whole, part[:c.PayloadLength]...)
	}
	return h.XID, fmt.Sprintf("reply in %d", first.Count), whole
}

// answer is one that is expected.
type answer struct {
	xid  uint32
	what string
}

// hostileGroup are messages, and what they are answered with.
type hostileGroup struct {
	name string
	send [][]byte
	want []answer
}

// hostileGroups has groups that are wrong in every way; memory is the caller's, 8
// bytes that may be read.
func hostileGroups(memory rpcrdma2.Segment) []hostileGroup {
	echo := rpcCall(1, procEcho, xdr.AppendOpaque(nil, bytes.Repeat([]byte("wxyz"), 800))) // 3240 bytes
	item := func(change func(*rpcrdma2.Item)) rpcrdma2.XmtReq {
		it := rpcrdma2.Item{Disp: 44, Length: 8, Place: rpcrdma2.ExplicitRDMA, Segments: []rpcrdma2.Segment{memory}}
		change(&it)
		return rpcrdma2.XmtReq{Items: []rpcrdma2.Item{it}}
	}
	results := func(begin, end, begin2, end2 uint32) rpcrdma2.XmtReq {
		return rpcrdma2.XmtReq{Results: []rpcrdma2.ResultSet{{Begin: begin, End: end}, {Begin: begin2, End: end2}}}
	}
	small := rpcCall(1, procNull, nil)
	group := func(body rpcrdma2.XmtReq) [][]byte { return asGroup(1, body, echo, 2000) }
	alone := func(body rpcrdma2.XmtReq) [][]byte { return asGroup(1, body, small, 2000) }
	begun := func(more ...[]byte) [][]byte { return append(group(rpcrdma2.XmtReq{})[:1], more...) }
	counted := func(n uint32) [][]byte {
		return [][]byte{optional(1, rpcrdma2.Call, &rpcrdma2.XmtReq{Count: n, PayloadLength: uint32(len(small))}, small)}
	}
	const badHeader = "error 2"
	return []hostileGroup{
		{"two transmissions", group(rpcrdma2.XmtReq{ReceiveBuffers: 3}), []answer{{1, "reply in 1"}}},
		{"more receives than there can be", group(rpcrdma2.XmtReq{ReceiveBuffers: 1<<32 - 1}), []answer{{1, "reply in 1"}}},
		{"nothing to continue", [][]byte{continuing(1, 1, echo)}, []answer{{1, "XMTERR 3"}}},
		{"a number left out", begun(continuing(1, 2, echo[2000:])), []answer{{1, "XMTERR 4"}}},
		{"a number far off", begun(continuing(1, 1<<32-1, echo[2000:])), []answer{{1, "XMTERR 4"}}},
		{"the number of the first", asGroup(1, rpcrdma2.XmtReq{}, echo, 1200)[:1], nil},
		{"... again", [][]byte{continuing(1, 0, nil), continuing(1, 2, nil)}, []answer{{1, "XMTERR 4"}}},
		{"another XID", begun(continuing(9, 1, echo[2000:])), []answer{{1, "XMTERR 5"}}},
		{"a part of a reply", begun(optional(1, rpcrdma2.Call, &rpcrdma2.XmtCont{Number: 1, Initial: rpcrdma2.OptXmtResp}, nil)), []answer{{1, "XMTERR 2"}}},
		{"a call within", begun(null2(6)), []answer{{1, "XMTERR 1"}, {6, "reply"}}},
		{"another group within", begun(asGroup(7, rpcrdma2.XmtReq{}, rpcCall(7, procNull, nil), 2000)...), []answer{{1, "XMTERR 2"}, {7, "reply in 1"}}},
		{"an unknown operation within", begun(optional(8, rpcrdma2.Call, unknownBody{}, nil)), []answer{{1, "XMTERR 2"}, {8, "error 3"}}},
		{"a payload longer than its message", [][]byte{optional(1, rpcrdma2.Call, &rpcrdma2.XmtReq{Count: 1, PayloadLength: 41}, small)}, []answer{{1, "XMTERR 8"}}},
		{"the same with four gigabytes", [][]byte{optional(1, rpcrdma2.Call, &rpcrdma2.XmtReq{Count: 1, PayloadLength: 1<<32 - 1}, small)}, []answer{{1, "XMTERR 8"}}},
		{"the same later", begun(optional(1, rpcrdma2.Call, &rpcrdma2.XmtCont{Number: 1, Initial: rpcrdma2.OptXmtReq, PayloadLength: 9}, echo[:8])), []answer{{1, "XMTERR 8"}}},
		{"no transmissions", counted(0), []answer{{1, badHeader}}},
		{"one too many", counted(9), []answer{{1, badHeader}}},
		{"four billion", counted(1<<32 - 1), []answer{{1, badHeader}}},
		{"a payload of nothing", [][]byte{optional(1, rpcrdma2.Call, &rpcrdma2.XmtReq{Count: 1}, small)}, []answer{{1, badHeader}}},
		{"an XID that is not the message's", asGroup(2, rpcrdma2.XmtReq{}, small, 2000), []answer{{2, badHeader}}},
		{"an item in our buffers, which have no places for it", alone(item(func(it *rpcrdma2.Item) {
			it.Place, it.Segments, it.Targets = rpcrdma2.TargetBuffer, nil, []uint32{0}
		})), []answer{{1, badHeader}}},
		{"an item where the message begins", alone(item(func(it *rpcrdma2.Item) { it.Disp = 0 })), []answer{{1, badHeader}}},
		{"an item within the RPC header", alone(item(func(it *rpcrdma2.Item) { it.Disp = 8 })), []answer{{1, badHeader}}},
		{"an item beyond the end", alone(item(func(it *rpcrdma2.Item) { it.Disp = 1<<32 - 4 })), []answer{{1, badHeader}}},
		{"an item that is longer than its segments", alone(item(func(it *rpcrdma2.Item) { it.Length = 9 })), []answer{{1, badHeader}}},
		{"an item of four gigabytes", alone(item(func(it *rpcrdma2.Item) { it.Length, it.Segments[0].Length = 1<<32-1, 1<<32-1 })), []answer{{1, badHeader}}},
		{"an item too short", alone(item(func(it *rpcrdma2.Item) { it.Place, it.Segments = rpcrdma2.TooShort, nil })), []answer{{1, badHeader}}},
		{"directions out of order", alone(results(8, 16, 0, 4)), []answer{{1, badHeader}}},
		{"directions that overlap", alone(results(0, 16, 8, 24)), []answer{{1, badHeader}}},
		{"what an answer says", [][]byte{optional(1, rpcrdma2.Reply, &rpcrdma2.XmtResp{Count: 1}, nil), null2(11)}, []answer{{11, "reply"}}},
		{"a complaint", [][]byte{optional(1, rpcrdma2.Call, &rpcrdma2.XmtError{Code: rpcrdma2.BadContinuation}, nil), null2(12)}, []answer{{12, "reply"}}},
		{"the first of three, wrong, and the others", append(begun(continuing(1, 5, nil)), continuing(1, 2, nil)), []answer{{1, "XMTERR 4"}, {1, "XMTERR 3"}}},
		{"at the end", group(rpcrdma2.XmtReq{}), []answer{{1, "reply in 1"}}},
	}
}

// null2 is a NULL call in version 2.
func null2(xid uint32) []byte {
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: 32}}
	return append(h.Append(nil), rpcCall(xid, procNull, nil)...)
}

// TestHostileTransmissions: groups that are wrong in every way get an error,
// their receives and credits come back, and the connection goes on.
func TestHostileTransmissions(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: func(s *rpcrdma.Settings) {
			speakingWith(continuation)(s)
			s.CreditsMax = 8
		}})
		before := b.l.Memory().Taken
		r := b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil))
		conn := <-b.conns
		r.post(null2(100))
		r.rejoin()
		settled := b.l.Memory().Taken
		mem := r.memory(8, verbs.AccessLocalWrite|verbs.AccessRemoteRead)
		for _, c := range hostileGroups(segment(mem, 0, 8)) {
			t.Log(c.name) // the last is where it ends
			for _, msg := range c.send {
				r.post(msg)
			}
			for _, want := range c.want {
				if xid, what, _ := r.rejoin(); xid != want.xid || what != want.what {
					t.Errorf("%s: %s for %d, want %s for %d", c.name, what, xid, want.what, want.xid)
				}
			}
		}
		if i := conn.Info(); i.CreditsGranted != 8 {
			t.Errorf("%d credits are granted in the end, want 8", i.CreditsGranted)
		}
		// Answers that were just posted may hold a buffer each.
		if after := b.l.Memory().Taken; after > settled+4*4096 {
			t.Errorf("%d bytes taken with no connection, %d at its start, %d in the end", before, settled, after)
		}
	})
}

// unknownBody is an operation that nobody knows.
type unknownBody struct{}

func (unknownBody) Type() rpcrdma2.OptType { return 99 }
func (unknownBody) Size() int              { return 0 }
func (unknownBody) Append(b []byte) []byte { return b }
func (unknownBody) Decode([]byte) error    { return nil }

// TestLongReplies: a reply takes no more transmissions than the call has receives
// for, and than we said; else the reply chunk, or an error.
func TestLongReplies(t *testing.T) {
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{settings: speakingWith(continuation)})
		r := b.dialRaw(wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil))
		mem := r.memory(64<<10, verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
		r.post(optional(90, rpcrdma2.Call, &rpcrdma2.XmtReq{Count: 1, PayloadLength: 40}, rpcCall(90, procNull, nil)))
		if xid, what, _ := r.rejoin(); xid != 90 || what != "reply in 1" {
			t.Fatalf("the first message: %s for %d", what, xid)
		}
		for i, c := range []struct {
			size    uint32
			receive uint32
			chunk   bool
			want    string
		}{
			{100, 0, false, "reply in 1"},
			{6000, 0, false, "error 2"}, {6000, 0, true, "reply"},
			{6000, 1, false, "reply in 2"}, {6000, 1, true, "reply in 2"},
			{12200, 2, false, "error 2"}, {12100, 2, false, "reply in 3"},
			{32000, 7, false, "reply in 8"}, {32000, 1<<32 - 1, false, "reply in 8"},
			{33000, 1<<32 - 1, false, "error 2"}, {33000, 1<<32 - 1, true, "reply"},
		} {
			xid := uint32(i)
			body := rpcrdma2.XmtReq{Count: 1, ReceiveBuffers: c.receive, HasReply: c.chunk}
			if c.chunk {
				body.Reply = []rpcrdma2.Segment{segment(mem, 0, 64<<10)}
			}
			call := rpcCall(xid, procRead, xdr.AppendUint32(xdr.AppendUint32(nil, c.size), 7))
			body.PayloadLength = uint32(len(call))
			r.post(optional(xid, rpcrdma2.Call, &body, call))
			if got, what, data := r.rejoin(); got != xid || what != c.want || (c.want != "error 2" && c.want != "reply" && len(data) != 24+12+int(c.size)) {
				t.Errorf("%d bytes for 1+%d receives, reply chunk %v: %s for %d, %d bytes, want %s", c.size, c.receive, c.chunk, what, got, len(data), c.want)
			}
		}
	})
}

package trace

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
)

var talk = &Conn{Info: Info{ID: "1", Peer: netip.MustParseAddrPort("192.0.2.7:1001"), Local: netip.MustParseAddrPort("192.0.2.1:20049")}}

// message returns a Send with a header and an RPC message.
func message(in bool, h rpcrdma1.Header, rpc []byte) *Event {
	if h.Version == 0 {
		h.Version = 1
	}
	b := append(h.Append(nil), rpc...)
	return &Event{Conn: talk, Op: verbs.OpSend, In: in, Length: len(b), Data: b}
}

// message2 is message for version 2.
func message2(in bool, h rpcrdma2.Header, rpc []byte) *Event {
	h.Version = 2
	b := append(h.Append(nil), rpc...)
	return &Event{Conn: talk, Op: verbs.OpSend, In: in, Length: len(b), Data: b}
}

func callOf(xid, prog, vers, proc uint32) []byte {
	return oncrpc.AppendCall(nil, &oncrpc.Call{XID: xid, Program: prog, Version: vers, Procedure: proc})
}

func cut(e *Event, n int) *Event {
	e.Data = e.Data[:n]
	return e
}

func invalidating(e *Event, rkey uint32) *Event {
	e.Op, e.RKey = verbs.OpSendInvalidate, rkey
	return e
}

// TestSummaries checks the summary lines of the events of one connection.
func TestSummaries(t *testing.T) {
	seg := func(n uint32) rpcrdma1.Segment { return rpcrdma1.Segment{Handle: 0x77, Length: n, Offset: 0x1000} }
	read := func(pos, n uint32) rpcrdma1.ReadSegment {
		return rpcrdma1.ReadSegment{Position: pos, Segment: seg(n)}
	}
	dec := NewDecoder()
	for _, tc := range []struct {
		e    *Event
		want string
		name string // of the RPC
	}{
		{message(true, rpcrdma1.Header{XID: 1, Credits: 64}, callOf(1, 100003, 3, 1)), "RDMA_MSG xid 0x00000001 credits 64 | CALL NFSv3 GETATTR, 40 bytes", "NFS GETATTR"},
		{message(false, rpcrdma1.Header{XID: 1, Credits: 32}, oncrpc.AppendAcceptedReply(nil, 1)), "RDMA_MSG xid 0x00000001 credits 32 | REPLY NFSv3 GETATTR SUCCESS, 24 bytes", "NFS GETATTR"},
		{
			message(true, rpcrdma1.Header{XID: 2, Credits: 64, Reads: []rpcrdma1.ReadSegment{read(132, 4096), read(132, 904), read(140, 8)}}, callOf(2, 100003, 3, 7)),
			"RDMA_MSG xid 0x00000002 credits 64, read at 132: 5000 bytes in 2 segments, read at 140: 8 bytes | CALL NFSv3 WRITE, 40 bytes", "NFS WRITE",
		},
		{&Event{Conn: talk, Op: verbs.OpRDMARead, In: true, RKey: 0x77, Addr: 0x1000, Length: 4096}, "RDMA Read, 4096 bytes from 0x77:0x1000", ""},
		{
			message(false, rpcrdma1.Header{XID: 2, Credits: 32}, oncrpc.AppendAcceptError(nil, 2, &oncrpc.AcceptError{Stat: oncrpc.GarbageArgs})),
			"RDMA_MSG xid 0x00000002 credits 32 | REPLY NFSv3 WRITE GARBAGE_ARGS, 24 bytes", "NFS WRITE",
		},
		{
			message(true, rpcrdma1.Header{XID: 3, Credits: 64, Writes: []rpcrdma1.WriteChunk{{seg(1 << 20), seg(1)}, {}}, HasReply: true, Reply: rpcrdma1.WriteChunk{seg(9)}}, callOf(3, 100005, 3, 1)),
			"RDMA_MSG xid 0x00000003 credits 64, write: 1048577 bytes in 2 segments, write: 0 bytes in 0 segments, reply: 9 bytes | CALL MOUNTv3 MNT, 40 bytes", "MOUNT MNT",
		},
		{&Event{Conn: talk, Op: verbs.OpRDMAWrite, RKey: 0x77, Addr: 0x1000, Length: 9}, "RDMA Write, 9 bytes to 0x77:0x1000", ""},
		{invalidating(message(false, rpcrdma1.Header{XID: 3, Credits: 32, Proc: rpcrdma1.NoMsg, HasReply: true, Reply: rpcrdma1.WriteChunk{seg(9)}}, nil), 0x77), "RDMA_NOMSG xid 0x00000003 credits 32, reply: 9 bytes invalidates 0x77", ""},
		{message(true, rpcrdma1.Header{XID: 4}, callOf(4, 0x20020049, 1, 2)), "RDMA_MSG xid 0x00000004 credits 0 | CALL ECHOv1 READ, 40 bytes", "ECHO READ"},
		{message(true, rpcrdma1.Header{XID: 5}, callOf(5, 100417, 1, 1)), "RDMA_MSG xid 0x00000005 credits 0 | CALL CCPv1 CONF_RDMA, 40 bytes", "CCP CONF_RDMA"},
		{message(true, rpcrdma1.Header{XID: 6}, callOf(6, 100003, 4, 1)), "RDMA_MSG xid 0x00000006 credits 0 | CALL NFSv4 COMPOUND, 40 bytes", "NFS COMPOUND"},
		{message(true, rpcrdma1.Header{XID: 7}, callOf(7, 100003, 3, 99)), "RDMA_MSG xid 0x00000007 credits 0 | CALL NFSv3 procedure 99, 40 bytes", "NFS procedure 99"},
		{message(true, rpcrdma1.Header{XID: 8}, callOf(8, 300000, 2, 1)), "RDMA_MSG xid 0x00000008 credits 0 | CALL program 300000 version 2 procedure 1, 40 bytes", ""},
		{
			message(false, rpcrdma1.Header{XID: 8}, oncrpc.AppendDenied(nil, 8, &oncrpc.DeniedError{Stat: oncrpc.AuthError, Auth: oncrpc.AuthTooWeak})),
			"RDMA_MSG xid 0x00000008 credits 0 | REPLY program 300000 version 2 procedure 1 AUTH_ERROR AUTH_TOOWEAK, 20 bytes", "",
		},
		{
			message(false, rpcrdma1.Header{XID: 9}, oncrpc.AppendDenied(nil, 9, &oncrpc.DeniedError{Stat: oncrpc.RPCMismatch, Low: 2, High: 2})),
			"RDMA_MSG xid 0x00000009 credits 0 | REPLY RPC_MISMATCH (2 to 2), 24 bytes", "",
		},
		{message(false, rpcrdma1.Header{XID: 10, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrVers, Low: 1, High: 1}, nil), "RDMA_ERROR xid 0x0000000a credits 0 ERR_VERS (1 to 1)", ""},
		{message(false, rpcrdma1.Header{XID: 11, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrChunk}, nil), "RDMA_ERROR xid 0x0000000b credits 0 ERR_CHUNK", ""},
		{message(true, rpcrdma1.Header{XID: 12, Proc: rpcrdma1.Done}, nil), "RDMA_DONE xid 0x0000000c credits 0", ""},
		{message2(true, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 13, Credits: 8}}, callOf(13, 100003, 3, 1)), "RDMA2_MSG xid 0x0000000d credits 8 version 2 | CALL NFSv3 GETATTR, 40 bytes", "NFS GETATTR"},
		{
			message2(false, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 13, Writes: []rpcrdma1.WriteChunk{{seg(9)}}}, Direction: rpcrdma2.Reply}, oncrpc.AppendAcceptedReply(nil, 13)),
			"RDMA2_MSG xid 0x0000000d credits 0 version 2, write: 9 bytes | REPLY NFSv3 GETATTR SUCCESS, 24 bytes", "NFS GETATTR",
		},
		{
			message2(true, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 20, Proc: rpcrdma2.Optional}, Option: rpcrdma2.OptInit, Info: []byte{1, 2, 3, 4}}, nil),
			"RDMA2_OPTIONAL xid 0x00000014 credits 0 version 2 | CALL INIT, 4 bytes", "",
		},
		{
			message2(true, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 20, Proc: rpcrdma2.Optional}, Option: 99, Direction: rpcrdma2.Reply}, nil),
			"RDMA2_OPTIONAL xid 0x00000014 credits 0 version 2 | REPLY operation 99, 0 bytes", "",
		},
		{
			transmission(true, 21, &rpcrdma2.XmtReq{Count: 2, ReceiveBuffers: 3, PayloadLength: 40}, callOf(21, 100003, 3, 1)),
			"RDMA2_OPTIONAL xid 0x00000015 credits 0 version 2 | CALL XMTREQ 1 of 2, 3 receives more | CALL NFSv3 GETATTR, 40 bytes", "NFS GETATTR",
		},
		{
			cut(transmission(true, 25, &rpcrdma2.XmtReq{Count: 2, PayloadLength: 1040}, append(callOf(25, 100003, 3, 7), make([]byte, 1000)...)), 100),
			"RDMA2_OPTIONAL xid 0x00000019 credits 0 version 2 | CALL XMTREQ 1 of 2 | CALL NFSv3 WRITE, 1040 bytes", "NFS WRITE",
		},
		{
			transmission(true, 21, &rpcrdma2.XmtCont{Number: 1, Initial: rpcrdma2.OptXmtReq, PayloadLength: 8}, make([]byte, 8)),
			"RDMA2_OPTIONAL xid 0x00000015 credits 0 version 2 | CALL XMTCONT 2, 8 bytes of the message", "",
		},
		{
			transmission(false, 21, &rpcrdma2.XmtResp{Count: 1, Items: []rpcrdma2.Item{{Place: rpcrdma2.NoItem}}, PayloadLength: 24}, oncrpc.AppendAcceptedReply(nil, 21)),
			"RDMA2_OPTIONAL xid 0x00000015 credits 0 version 2 | REPLY XMTRESP 1 of 1, 1 apart | REPLY NFSv3 GETATTR SUCCESS, 24 bytes", "NFS GETATTR",
		},
		{
			transmission(false, 22, &rpcrdma2.XmtError{Code: rpcrdma2.BadSequence}, nil),
			"RDMA2_OPTIONAL xid 0x00000016 credits 0 version 2 | REPLY XMTERR BADSEQ", "",
		},
		{
			message2(true, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 23, Proc: rpcrdma2.Optional}, Option: rpcrdma2.OptXmtReq, Info: []byte{0, 0, 0, 1}}, nil),
			"RDMA2_OPTIONAL xid 0x00000017 credits 0 version 2 | CALL XMTREQ, 4 bytes [malformed: rpcrdma: malformed header: truncated]", "",
		},
		{message2(false, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 20, Proc: rpcrdma2.Error, Err: rpcrdma2.ErrInvalOption}}, nil), "RDMA2_ERROR xid 0x00000014 credits 0 version 2 INVAL_OPTION", ""},
		{message2(false, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 20, Proc: rpcrdma2.Error, Err: rpcrdma2.ErrBadHeader}}, nil), "RDMA2_ERROR xid 0x00000014 credits 0 version 2 BAD_HEADER", ""},
		{message2(false, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 20, Proc: rpcrdma2.Error, Err: rpcrdma2.ErrVers, Low: 1, High: 1}}, nil), "RDMA2_ERROR xid 0x00000014 credits 0 version 2 ERR_VERS (1 to 1)", ""},
		{message(true, rpcrdma1.Header{XID: 13, Version: 2, Proc: rpcrdma1.MsgP}, nil), "header type 2 xid 0x0000000d credits 0 version 2 [malformed: rpcrdma: malformed header: unknown header type]", ""},
		{message(true, rpcrdma1.Header{XID: 14, Version: 7}, nil), "header type 0 xid 0x0000000e credits 0 version 7 [malformed: unknown version]", ""},
		{message(true, rpcrdma1.Header{XID: 15}, callOf(16, 100003, 3, 0)), "RDMA_MSG xid 0x0000000f credits 0 [malformed: XIDs of transport header and RPC message differ]", ""},
		{message(true, rpcrdma1.Header{XID: 17}, []byte("abc")), "RDMA_MSG xid 0x00000011 credits 0 [malformed: oncrpc: malformed RPC message]", ""},
		{&Event{Conn: talk, Op: verbs.OpSend, In: true, Length: 3, Data: []byte("abc")}, "Send, 3 bytes [malformed: rpcrdma1: message shorter than the header prefix]", ""},
		{cut(message(true, rpcrdma1.Header{XID: 18}, callOf(18, 100003, 3, 0)), 10), "Send, 68 bytes [68 bytes, not seen whole]", ""},
		{cut(message(true, rpcrdma1.Header{XID: 18}, callOf(18, 100003, 3, 0)), 30), "RDMA_MSG xid 0x00000012 credits 0 [68 bytes, not seen whole]", ""},
	} {
		m := dec.Decode(tc.e)
		want := "192.0.2.1:20049 > 192.0.2.7:1001: " + tc.want
		if tc.e.In {
			want = "192.0.2.7:1001 > 192.0.2.1:20049: " + tc.want
		}
		if got := m.Summary(); got != want {
			t.Errorf("\ngot  %s\nwant %s", got, want)
		}
		if got := m.RPC.Name(); got != tc.name {
			t.Errorf("%s: the RPC is called %q, want %q", tc.want, got, tc.name)
		}
	}
}

// transmission returns a message of a transmission group.
func transmission(in bool, xid uint32, body rpcrdma2.Body, payload []byte) *Event {
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Proc: rpcrdma2.Optional}, Option: body.Type(), Info: body.Append(nil)}
	if !in {
		h.Direction = rpcrdma2.Reply
	}
	return message2(in, h, payload)
}

// TestDecoderForgets checks that the decoder keeps a bounded number of
// unanswered calls.
func TestDecoderForgets(t *testing.T) {
	dec := NewDecoder()
	for i := range uint32(3*maxCalls + 1) {
		dec.Decode(message(true, rpcrdma1.Header{XID: i}, callOf(i, 100003, 3, 0)))
		if len(dec.calls) > maxCalls {
			t.Fatalf("%d calls are remembered", len(dec.calls))
		}
	}
}

// FuzzDecode checks that every message of a peer has a summary of one line, and
// that a whole message is either decoded or malformed.
func FuzzDecode(f *testing.F) {
	chunk := rpcrdma1.WriteChunk{{Handle: 1, Length: 2, Offset: 3}}
	for _, e := range []*Event{
		message(true, rpcrdma1.Header{XID: 1, Writes: []rpcrdma1.WriteChunk{chunk}}, callOf(1, 100003, 3, 6)),
		message(true, rpcrdma1.Header{XID: 1, Proc: rpcrdma1.NoMsg, Reads: []rpcrdma1.ReadSegment{{Segment: chunk[0]}}}, nil),
		message(true, rpcrdma1.Header{XID: 1, Proc: rpcrdma1.MsgP, Align: 4, Thresh: 4}, callOf(1, 100003, 3, 7)),
		message(true, rpcrdma1.Header{XID: 1, HasReply: true, Reply: chunk}, oncrpc.AppendAcceptedReply(nil, 1)),
		message(true, rpcrdma1.Header{XID: 1, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrVers, Low: 1, High: 2}, nil),
		message2(true, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 1}}, callOf(1, 100003, 3, 7)),
		message2(false, rpcrdma2.Header{Header: rpcrdma1.Header{XID: 1, Proc: rpcrdma2.Optional}, Option: rpcrdma2.OptUpdate, Info: []byte{0, 0, 0, 1}}, nil),
		transmission(true, 1, &rpcrdma2.XmtReq{Count: 2, PayloadLength: 40}, callOf(1, 100003, 3, 7)),
		transmission(false, 1, &rpcrdma2.XmtResp{Count: 2, PayloadLength: 24}, oncrpc.AppendAcceptedReply(nil, 1)),
		transmission(false, 1, &rpcrdma2.XmtError{Code: rpcrdma2.BadOffset}, nil),
		{Data: []byte("short")},
	} {
		f.Add(e.Data, len(e.Data), true)
		f.Add(e.Data[:len(e.Data)/2], len(e.Data), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, length int, in bool) {
		length = min(max(length, len(data)), len(data)+1<<20)
		m := NewDecoder().Decode(&Event{Conn: talk, Op: verbs.OpSend, In: in, Length: length, Data: data})
		s := m.Summary()
		if s == "" || strings.ContainsAny(s, "\n\r\x1b") {
			t.Errorf("summary %q", s)
		}
		rpc := m.Lists && (m.Header.Proc == rpcrdma1.Msg || m.Header.Proc == rpcrdma1.MsgP)
		if m.Whole() && m.Malformed == "" && (!m.Prefix || rpc && !m.HasRPC || !m.Lists) {
			t.Errorf("neither decoded nor malformed: %+v", m)
		}
		if !m.Whole() && m.Malformed != "" {
			t.Errorf("malformed though not seen whole: %s", m.Malformed)
		}
	})
}

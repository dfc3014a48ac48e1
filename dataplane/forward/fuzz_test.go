package forward

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// fuzzCalls wait for replies while an upstream sends anything.
func fuzzCalls() []oncrpc.Call {
	args := func(parts ...any) oncrpc.Payload { return oncrpc.Payload{Stream: enc(parts...)} }
	return []oncrpc.Call{
		{XID: 1, Program: nfsProgram, Version: 3, Procedure: 6, Args: args("handle42", 0, 0, 64)},
		{XID: 2, Program: nfsProgram, Version: 4, Procedure: 1, Args: args(compound(3, readOp(64), 27, readOp(64)))},
		{XID: 3, Program: nfsProgram, Version: 4, Procedure: 1, Args: args(createSession)},
		{XID: 4, Program: 200000, Version: 1, Procedure: 1, Args: args("anything")},
		{XID: 5, Program: nfsProgram, Version: 3, Procedure: 6, Args: args("cut")},
	}
}

// endedConn is a client's connection whose calls end with it.
type endedConn struct{ end context.CancelFunc }

func (endedConn) ID() string                                { return "1" }
func (endedConn) OpenBackchannel()                          {}
func (endedConn) Call(context.Context, *rpcrdma.Call) error { return rpcrdma.ErrNoBackchannel }
func (endedConn) Inline() (send, receive uint32)            { return 1000, 2000 }
func (endedConn) Waited(time.Duration)                      {}
func (c endedConn) End(string)                              { c.end() }

// passed keeps what a session says is final of the results of a reply.
type passed struct {
	t     *testing.T
	reply *oncrpc.Reply
	parts [][]byte // by item, copies
}

// Filled implements oncrpc.Ahead.
func (p *passed) Filled(n int) {
	i := len(p.reply.Items) - 1
	for len(p.parts) <= i {
		p.parts = append(p.parts, nil)
	}
	if it := &p.reply.Items[i]; n <= len(p.parts[i]) || n >= it.Len {
		p.t.Errorf("%d bytes after %d, of %d", n, len(p.parts[i]), it.Len)
	} else {
		p.parts[i] = bytes.Clone(it.Buf.Bytes()[:n])
	}
}

// check compares with the reply in the end.
func (p *passed) check() {
	for i, part := range p.parts {
		if i >= len(p.reply.Items) || !bytes.Equal(p.reply.Items[i].Buf.Bytes()[:len(part)], part) {
			p.t.Errorf("result %d is not what was said to be final", i)
		}
	}
}

// FuzzUpstream feeds a session what an upstream may send, in pieces. Every call
// ends; a reply is, put together again, what the upstream sent under its XID
// first; what was final before the end did not change; no memory is left.
func FuzzUpstream(f *testing.F) {
	read := success(1, didRead("some data"))
	reads := success(2, results(0, 3, gotRead([]byte("abc")), 27, 0, "to", gotRead([]byte("defgh"))))
	f.Add(bytes.Join([][]byte{record(read, 0), record(reads, 0), record(success(3, createdSession), 0), record(success(4, "x"), 0), record(success(5), 0)}, nil), uint8(0))
	f.Add(bytes.Join([][]byte{record(reads, 5), record(callback(9, "args"), 7), record(read, 1), record(read, 0)}, nil), uint8(3))
	f.Add(bytes.Join([][]byte{record(enc(1, 1, 0, 0, 0, 1), 0), record(enc(2, 1, 1, 1, 5), 0), record(enc(4, 1, 0, 6, "verf", 0, "results"), 0)}, nil), uint8(1))
	f.Add(bytes.Join([][]byte{record(success(1, 0, 0, 99, 1, 99, "x"), 0), record(success(2, results(0, 1, 4711, 1, 2, 3)), 0)}, nil), uint8(0))
	f.Add(append(oncrpc.AppendRecordMark(nil, 4, false), 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff), uint8(2))
	f.Add(record(enc(9, 0, 3, 1, 1, 1, 0, 0, 0, 0), 0), uint8(0))
	f.Fuzz(func(t *testing.T, stream []byte, step uint8) {
		calls := fuzzCalls()
		nc := newScriptConn()
		nc.next = make(chan []byte, len(stream)+1)
		var sent sync.WaitGroup
		sent.Add(len(calls))
		nc.wrote = func(b []byte) {
			if len(b) >= 44 && xdrWord(b, 8) == 0 && xdrWord(b, 4) <= uint32(len(calls)) {
				sent.Done()
			}
		}
		f := newHasty(Config{Forward: spec.Forward{MaxRecord: 1 << 16}})
		f.least, f.enough = 2, 5
		s := newSession(f, netip.AddrPort{}, nc)
		ctx, cancel := context.WithCancel(t.Context())
		s.Up(endedConn{cancel})
		mem := new(memory)
		replies := make([]oncrpc.Reply, len(calls))
		errs := make([]error, len(calls))
		parts := make([]passed, len(calls))
		var all sync.WaitGroup
		for i := range calls {
			parts[i] = passed{t: t, reply: &replies[i]}
			replies[i].Mem, replies[i].Ahead = mem, &parts[i]
			all.Go(func() { errs[i] = serve(ctx, s, &calls[i], &replies[i]) })
		}
		sent.Wait()
		for at := 0; at < len(stream); {
			n := min(len(stream)-at, max(int(step), 1))
			nc.next <- stream[at : at+n]
			at += n
		}
		close(nc.next)
		all.Wait()
		s.Close()
		for i := range calls {
			if errs[i] == nil {
				parts[i].check()
				if got, want := whole(&replies[i]), lowered(s, &calls[i], firstReply(stream, calls[i].XID)); !sameBut(got, want, &replies[i]) {
					t.Errorf("call %d: reply %x, sent %x", i, got, want)
				}
			} else if _, ok := errors.AsType[*oncrpc.AcceptError](errs[i]); !ok && ctx.Err() == nil {
				t.Errorf("call %d: %v on a connection that is up", i, errs[i])
			}
			replies[i].Release()
		}
		if n := mem.out.Load(); n != 0 {
			t.Errorf("%d buffers left", n)
		}
		cancel()
	})
}

func xdrWord(b []byte, at int) uint32 {
	d := xdr.NewDecoder(b[at:])
	return d.Uint32()
}

// whole is a reply with its items in their places.
func whole(r *oncrpc.Reply) (out []byte) {
	at := 0
	for _, it := range r.Items {
		out = append(out, r.Stream[at:it.Pos]...)
		out = xdr.AppendFixed(out, it.Buf.Bytes()[:it.Len])
		at = it.Pos
	}
	return append(out, r.Stream[at:]...)
}

// firstReply is the first whole reply with an XID in a stream.
func firstReply(stream []byte, xid uint32) []byte {
	r := oncrpc.NewRecordReader(bytes.NewReader(stream), 1<<16)
	for {
		if _, err := r.Next(); err != nil {
			return nil
		}
		msg, err := r.Read(nil)
		if err != nil {
			return nil
		}
		if got, mtype, ok := oncrpc.MessageType(msg); ok && mtype == oncrpc.MsgReply && got == xid {
			return msg
		}
	}
}

// lowered is a reply in which what the upstream announces is held to limits.
func lowered(s *Session, c *oncrpc.Call, reply []byte) []byte {
	plan := ulb.Plan{Limits: s.limits}
	var h oncrpc.ReplyHeader
	if n, err := oncrpc.DecodeReply(reply, &h); err == nil && plan.Call(bindings, c) == nil {
		plan.LowerReply(reply[n:], nil)
	}
	return reply
}

// sameBut compares but for roundup, which is not kept.
func sameBut(got, want []byte, r *oncrpc.Reply) bool {
	if len(got) != len(want) {
		return false
	}
	want = bytes.Clone(want)
	shift := 0
	for _, it := range r.Items {
		end := it.Pos + shift + it.Len
		clear(want[end : end+xdr.Pad(it.Len)])
		shift += xdr.Padded(it.Len)
	}
	return bytes.Equal(got, want)
}

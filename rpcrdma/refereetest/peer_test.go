package refereetest

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// Sizes of a peer's memory: what it sends, each receive, what others reach.
const (
	messageSize = 8192
	receives    = 16
	openSize    = 1 << 16
)

// peer is one end of a connection on bare verbs. It sends what a test says.
type peer struct {
	t          *testing.T
	id         rdmacm.ID
	pd         verbs.PD
	cq         verbs.CQ
	qp         verbs.QP
	send, recv verbs.MR
	open       verbs.MR // the other end may read and write it
	got        int      // receives used
}

// connect makes a connection whose ends are judged as r says, and tells the
// private data of both.
func connect(t *testing.T, p rdmacm.Provider, client, server []byte) (c, s *peer) {
	t.Helper()
	l, err := p.Listen(t.Context(), "127.0.0.1:0")
	ok(t, err)
	c = &peer{t: t}
	c.id, err = p.Resolve(t.Context(), l.Addr().String())
	ok(t, err)
	c.setUp()
	done := make(chan error, 1)
	go func() {
		done <- c.id.Connect(t.Context(), rdmacm.ConnParam{PrivateData: client, ResponderResources: 4, InitiatorDepth: 4})
	}()
	s = &peer{t: t}
	s.id, err = l.GetRequest(t.Context())
	ok(t, err)
	s.setUp()
	ok(t, s.id.Accept(t.Context(), rdmacm.ConnParam{PrivateData: server, ResponderResources: 4, InitiatorDepth: 4}))
	ok(t, <-done)
	t.Cleanup(func() {
		c.close()
		s.close()
		ok(t, l.Close())
		ok(t, p.Close())
	})
	return c, s
}

var ok = verbstest.Must

func (p *peer) setUp() {
	p.t.Helper()
	var err error
	p.pd, err = p.id.Device().AllocPD()
	ok(p.t, err)
	p.cq, err = p.id.Device().CreateCQ(64)
	ok(p.t, err)
	p.qp, err = p.id.CreateQP(p.pd, verbs.QPAttr{SendCQ: p.cq, RecvCQ: p.cq, MaxSendWR: 16, MaxRecvWR: receives, MaxSendSGE: 1, MaxRecvSGE: 1})
	ok(p.t, err)
	for mr, n := range map[*verbs.MR]int{&p.send: messageSize, &p.recv: receives * messageSize, &p.open: openSize} {
		access := verbs.AccessLocalWrite
		if mr == &p.open {
			access |= verbs.AccessRemoteRead | verbs.AccessRemoteWrite
		}
		*mr, err = p.pd.RegMR(make([]byte, n), access)
		ok(p.t, err)
	}
	for i := range receives {
		_, err := p.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{{MR: p.recv, Offset: i * messageSize, Length: messageSize}}}})
		ok(p.t, err)
	}
}

func (p *peer) close() {
	p.t.Helper()
	ok(p.t, p.id.Close())
	for _, mr := range []verbs.MR{p.send, p.recv, p.open} {
		ok(p.t, mr.Close())
	}
	ok(p.t, p.cq.Close())
	ok(p.t, p.pd.Close())
}

// wait takes completions until one of op has come.
func (p *peer) wait(op verbs.WCOpcode) verbs.WC {
	p.t.Helper()
	for {
		var wc [1]verbs.WC
		if p.cq.Poll(wc[:]) == 0 {
			ok(p.t, p.cq.Wait(p.t.Context()))
			continue
		}
		if wc[0].Status != verbs.WCSuccess {
			p.t.Fatalf("a request of kind %d ended with: %v", op, wc[0].Status)
		}
		if wc[0].Op == verbs.WCRecv {
			p.got++
		}
		if wc[0].Op == op {
			return wc[0]
		}
	}
}

// post posts a request over the first n bytes of the memory that is sent from,
// and waits for its end.
func (p *peer) post(wr verbs.SendWR, n int, done verbs.WCOpcode) {
	p.t.Helper()
	wr.Flags = verbs.SendSignaled
	if n > 0 {
		wr.SGL = []verbs.SGE{{MR: p.send, Length: n}}
	}
	_, err := p.qp.PostSend([]verbs.SendWR{wr})
	ok(p.t, err)
	p.wait(done)
}

// says sends a message.
func (p *peer) says(msg []byte) {
	p.t.Helper()
	p.post(verbs.SendWR{Op: verbs.OpSend}, copy(p.send.Bytes(), msg), verbs.WCSend)
}

// hears takes the next message.
func (p *peer) hears() []byte {
	p.t.Helper()
	at := p.got * messageSize
	wc := p.wait(verbs.WCRecv)
	return p.recv.Bytes()[at:][:wc.ByteLen]
}

// writes writes n bytes into a segment of the other end.
func (p *peer) writes(s rpcrdma1.Segment, n int) {
	p.t.Helper()
	p.post(verbs.SendWR{Op: verbs.OpRDMAWrite, RKey: s.Handle, RemoteAddr: s.Offset}, n, verbs.WCRDMAWrite)
}

// reads reads n bytes of a segment of the other end.
func (p *peer) reads(s rpcrdma1.Segment, n int) {
	p.t.Helper()
	p.post(verbs.SendWR{Op: verbs.OpRDMARead, RKey: s.Handle, RemoteAddr: s.Offset}, n, verbs.WCRDMARead)
}

// segment names n bytes of what the other end may reach.
func (p *peer) segment(n int) rpcrdma1.Segment {
	return rpcrdma1.Segment{Handle: p.open.RKey(), Length: uint32(n), Offset: p.open.Addr()}
}

// private is the private data of an end with 4 KiB both ways.
func private(invalidation bool) []byte {
	return wire.PrivateData{RemoteInvalidation: invalidation, SendSize: 4096, ReceiveSize: 4096}.Append(nil)
}

// Messages.

// call is a call of a program, with a header that change may change.
func call(xid, program, version, proc uint32, args []byte, change func(*rpcrdma1.Header)) []byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 8}
	if change != nil {
		change(&h)
	}
	b := h.Append(nil)
	if h.Proc == rpcrdma1.NoMsg || h.Proc == rpcrdma1.Done {
		return b
	}
	return append(oncrpc.AppendCall(b, &oncrpc.Call{XID: xid, Program: program, Version: version, Procedure: proc}), args...)
}

// null is a call without arguments and results.
func null(xid uint32) []byte { return call(xid, 100003, 3, 0, nil, nil) }

// reply answers a call, with a header that change may change.
func reply(xid uint32, results []byte, change func(*rpcrdma1.Header)) []byte {
	h := rpcrdma1.Header{XID: xid, Version: 1, Credits: 8}
	if change != nil {
		change(&h)
	}
	return append(oncrpc.AppendAcceptedReply(h.Append(nil), xid), results...)
}

// null2 is null for version 2.
func null2(xid uint32) []byte {
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: 8}}
	return oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: xid, Program: 100003, Version: 3})
}

// reply2 is reply for version 2.
func reply2(xid uint32) []byte {
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: 8}, Direction: rpcrdma2.Reply}
	return oncrpc.AppendAcceptedReply(h.Append(nil), xid)
}

// optional is a message of version 2 for an extension.
func optional(xid uint32, d rpcrdma2.Direction, body rpcrdma2.Body, payload []byte) []byte {
	h := rpcrdma2.Header{Header: rpcrdma1.Header{XID: xid, Version: 2, Credits: 8, Proc: rpcrdma2.Optional}, Direction: d, Option: body.Type(), Info: body.Append(nil)}
	return append(h.Append(nil), payload...)
}

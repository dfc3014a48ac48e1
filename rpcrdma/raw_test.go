package rpcrdma_test

import (
	"cmp"
	"context"
	"encoding/hex"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// raw is a peer written on bare verbs, which does as a test says.
type raw struct {
	t       testing.TB
	ctx     context.Context
	id      rdmacm.ID
	pd      verbs.PD
	cq      verbs.CQ
	qp      verbs.QP
	send    verbs.MR
	recv    verbs.MR
	mrs     []verbs.MR
	windows []verbs.MW
	got     []verbs.WC // receive completions not looked at
	posted  int        // receives, in all
	places  int        // for received messages; rawBuffers if 0
}

const (
	rawBuffers = 80
	rawSize    = 8192
)

// dialRaw connects a raw peer to the bed's listener.
func (b *bed) dialRaw(privateData []byte) *raw {
	b.t.Helper()
	return b.dialRawAt(b.l.Addr().String(), privateData, rawBuffers)
}

// dialRawAt connects a raw peer that posts a number of receives.
func (b *bed) dialRawAt(address string, privateData []byte, receives int) *raw {
	b.t.Helper()
	r := &raw{t: b.t, ctx: b.ctx}
	b.connectRaw(r, address, privateData, receives)
	return r
}

func (b *bed) connectRaw(r *raw, address string, privateData []byte, receives int) {
	b.t.Helper()
	var err error
	r.id, err = b.raw.Resolve(b.ctx, address)
	r.ok(err)
	r.prepare()
	r.listen(receives)
	r.ok(r.id.Connect(b.ctx, rdmacm.ConnParam{PrivateData: privateData, ResponderResources: 16, InitiatorDepth: 1}))
	r.t.Cleanup(r.close)
}

// setUp makes the queues and posts all receives.
func (r *raw) setUp() {
	r.t.Helper()
	r.prepare()
	r.listen(rawBuffers)
}

// prepare makes the queues.
func (r *raw) prepare() {
	r.t.Helper()
	dev := r.id.Device()
	var err error
	r.pd, err = dev.AllocPD()
	r.ok(err)
	r.cq, err = dev.CreateCQ(1000)
	r.ok(err)
	r.qp, err = r.id.CreateQP(r.pd, verbs.QPAttr{SendCQ: r.cq, RecvCQ: r.cq, MaxSendWR: 500, MaxRecvWR: rawBuffers, MaxSendSGE: 1, MaxRecvSGE: 1})
	r.ok(err)
	r.places = cmp.Or(r.places, rawBuffers)
	r.send, r.recv = r.memory(rawSize, 0), r.memory(r.places*rawSize, verbs.AccessLocalWrite)
}

// listen posts n receives more.
func (r *raw) listen(n int) {
	r.t.Helper()
	wrs, sges := make([]verbs.RecvWR, n), make([]verbs.SGE, n)
	for w := range wrs {
		i := r.posted % r.places
		sges[w] = verbs.SGE{MR: r.recv, Offset: i * rawSize, Length: rawSize}
		wrs[w] = verbs.RecvWR{ID: uint64(i), SGL: sges[w : w+1 : w+1]}
		r.posted++
	}
	_, err := r.qp.PostRecv(wrs)
	r.ok(err)
}

func (r *raw) ok(err error) {
	r.t.Helper()
	must(r.t, err)
}

// memory registers n bytes.
func (r *raw) memory(n int, access verbs.Access) verbs.MR {
	r.t.Helper()
	mr, err := r.pd.RegMR(make([]byte, n), access)
	r.ok(err)
	r.mrs = append(r.mrs, mr)
	return mr
}

func (r *raw) close() {
	r.id.Close()
	for _, mw := range r.windows {
		r.ok(mw.Close())
	}
	for _, mr := range r.mrs {
		r.ok(mr.Close())
	}
	r.ok(r.cq.Close())
	r.ok(r.pd.Close())
}

// post sends a message without waiting for anything.
func (r *raw) post(msg []byte) {
	r.t.Helper()
	copy(r.send.Bytes(), msg)
	_, err := r.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Flags: verbs.SendSignaled, ID: 1 << 40, SGL: []verbs.SGE{{MR: r.send, Length: len(msg)}}}})
	r.ok(err)
	// The buffer is used again: wait until it may be.
	r.wait(func(wc verbs.WC) bool { return wc.ID == 1<<40 })
}

// wait takes completions until one is as wanted, or the connection has ended.
func (r *raw) wait(want func(verbs.WC) bool) (verbs.WC, bool) {
	for {
		must(r.t, r.cq.Wait(r.ctx))
		var wc [1]verbs.WC
		if r.cq.Poll(wc[:]) == 0 {
			continue
		}
		switch {
		case wc[0].Status != verbs.WCSuccess:
			return wc[0], false
		case want(wc[0]):
			return wc[0], true
		case wc[0].Op == verbs.WCRecv:
			r.got = append(r.got, wc[0])
		}
	}
}

// receive gives the next message, or nil when the connection has ended.
func (r *raw) receive() []byte { msg, _ := r.receiveWC(); return msg }

func (r *raw) receiveWC() ([]byte, verbs.WC) {
	var wc verbs.WC
	ok := true
	if len(r.got) > 0 {
		wc, r.got = r.got[0], r.got[1:]
	} else {
		wc, ok = r.wait(func(wc verbs.WC) bool { return wc.Op == verbs.WCRecv })
	}
	if !ok {
		return nil, wc
	}
	at := int(wc.ID) * rawSize
	return r.recv.Bytes()[at : at+wc.ByteLen], wc
}

// take decodes the next message's header and gives its body. The test ends if the connection
// has ended.
func (r *raw) take(h interface{ Decode([]byte) (int, error) }) (body []byte) {
	r.t.Helper()
	msg := r.receive()
	if msg == nil {
		r.t.Fatalf("connection ended: %v", r.qp.Err())
	}
	n, err := h.Decode(msg)
	r.ok(err)
	return msg[n:]
}

// exchange sends a message and gives the answer's header and body.
func (r *raw) exchange(msg []byte) (h rpcrdma1.Header, body []byte) {
	r.t.Helper()
	r.post(msg)
	body = r.take(&h)
	return h, body
}

// ended waits for the end of the connection.
func (r *raw) ended() {
	r.t.Helper()
	for {
		if _, ok := r.wait(func(verbs.WC) bool { return false }); !ok {
			return
		}
	}
}

// message is a call of the test service under a transport header.
func message(h rpcrdma1.Header, proc uint32, args ...byte) []byte {
	h.Version, h.Credits = cmp.Or(h.Version, 1), cmp.Or(h.Credits, 32)
	c := oncrpc.Call{XID: h.XID, Program: 0x20000001, Version: 1, Procedure: proc}
	return append(oncrpc.AppendCall(h.Append(nil), &c), args...)
}

// segment names n bytes of a region.
func segment(mr verbs.MR, off, n int) rpcrdma1.Segment {
	return rpcrdma1.Segment{Handle: mr.RKey(), Length: uint32(n), Offset: mr.Addr() + uint64(off)}
}

// window shows n bytes of a region through a window, which the peer may
// invalidate; through the region itself on devices without windows.
func (r *raw) window(mr verbs.MR, off, n int, access verbs.Access) rpcrdma1.Segment {
	r.t.Helper()
	if !r.id.Device().Attr().MemWindowType2B {
		return segment(mr, off, n)
	}
	mw, err := r.pd.AllocMW()
	r.ok(err)
	r.windows = append(r.windows, mw)
	_, err = r.qp.PostSend([]verbs.SendWR{{Op: verbs.OpBindMW, Bind: verbs.BindInfo{MW: mw, MR: mr, Offset: off, Length: n, Access: access}}})
	r.ok(err)
	return rpcrdma1.Segment{Handle: mw.RKey(), Length: uint32(n), Offset: mw.Addr()}
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(s)
	must(t, err)
	return b
}

// kernelPrivateData is what a kernel client says.
var kernelPrivateData = wire.PrivateData{RemoteInvalidation: true, SendSize: 4096, ReceiveSize: 4096}.Append(nil)

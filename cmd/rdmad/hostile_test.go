package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Bytes that are no protocol cost their sender its connection and one line of
// log; everybody else is served on.
func TestGarbageHarmsNobody(t *testing.T) {
	r := newRig(t)
	p := r.start()
	good := r.dial(p.addresses["echo"])
	senders := map[string]string{}
	for _, c := range []struct {
		name, address, bytes string
	}{
		{"not MPA", p.addresses["nfs"], "GET / HTTP/1.1\r\nHost: x\r\n\r\n" + strings.Repeat("x", 4096)},
		{"not MPA, echo", p.addresses["echo"], strings.Repeat("\x00", 4096)},
		{"half of MPA", p.addresses["nfs"], "MPA ID Req Frame\x40\x02"},
		{"endless private data", p.addresses["nfs"], "MPA ID Req Frame\x40\x02\xff\xff" + strings.Repeat("x", 4096)},
	} {
		nc := have(net.Dial("tcp", c.address))(t)
		io.WriteString(nc, c.bytes)
		nc.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, nc) // until rdmad has closed it
		nc.Close()
		senders[c.name] = nc.LocalAddr().String()
	}
	if err := good.Call(t.Context(), echoCall([]byte("still there"))); err != nil {
		t.Errorf("the connection from before: %v", err)
	}
	if err := r.dial(p.addresses["nfs"]).Call(t.Context(), echoCall(nil)); err == nil {
		t.Error("the nfs service answers for echo")
	}
	p.end(t, "TERM", 0)
	for name, address := range senders {
		if n := linesWith(p.Log(), address); n != 1 {
			t.Errorf("%s: %d lines of log name %v:\n%s", name, n, address, p.Log())
		}
	}
}

// Messages that are no RPC-over-RDMA get the protocol's answer.
func TestBadHeadersGetTheProtocolsAnswer(t *testing.T) {
	r := newRig(t)
	p := r.start()
	raw := r.rawPeer(p.addresses["echo"])
	for _, c := range []struct {
		name string
		send rpcrdma1.Header
		body string
		want []uint32 // words; the third, the grant, is any but 0
	}{
		{"version 9", rpcrdma1.Header{XID: 7, Version: 9, Credits: 4, Proc: rpcrdma1.Msg}, "",
			[]uint32{7, 9, 0, 4, 1, 1, 1}}, // ERR_VERS, 1 to 1
		{"no RPC", rpcrdma1.Header{XID: 8, Version: 1, Credits: 4, Proc: rpcrdma1.Msg}, "not an RPC message",
			[]uint32{8, 1, 0, 4, 2}}, // ERR_CHUNK
	} {
		var want []byte
		for _, w := range c.want {
			want = xdr.AppendUint32(want, w)
		}
		got := raw.exchange(t, &c.send, c.body)
		if len(got) < 12 || binary.BigEndian.Uint32(got[8:]) == 0 {
			t.Fatalf("%s: answer %x grants nothing", c.name, got)
		}
		clear(got[8:12])
		if !bytes.Equal(got, want) {
			t.Errorf("%s: answer\n%x, want\n%x", c.name, got, want)
		}
	}
	raw.id.Close()
	if err := r.dial(p.addresses["echo"]).Call(t.Context(), echoCall([]byte("next"))); err != nil {
		t.Error(err)
	}
	p.end(t, "TERM", 0)
}

func linesWith(log, text string) (n int) {
	for line := range strings.Lines(log) {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

// rawPeer is a connection without RPC-over-RDMA on this side.
type rawPeer struct {
	id rdmacm.ID
	qp verbs.QP
	cq verbs.CQ
	mr verbs.MR
	b  []byte
}

const rawHalf = 4096 // of the memory: what is sent, what is received

func (r *rig) rawPeer(address string) *rawPeer {
	r.t.Helper()
	must := func(err error) {
		r.t.Helper()
		if err != nil {
			r.t.Fatal(err)
		}
	}
	id, err := r.raw.Resolve(r.t.Context(), address)
	must(err)
	p := &rawPeer{id: id, b: make([]byte, 2*rawHalf)}
	pd, err := id.Device().AllocPD()
	must(err)
	p.mr, err = pd.RegMR(p.b, verbs.AccessLocalWrite)
	must(err)
	p.cq, err = id.Device().CreateCQ(16)
	must(err)
	p.qp, err = id.CreateQP(pd, verbs.QPAttr{SendCQ: p.cq, RecvCQ: p.cq, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1})
	must(err)
	r.t.Cleanup(func() {
		id.Close()
		p.cq.Close()
		p.mr.Close()
		pd.Close()
	})
	p.receive(r.t)
	must(id.Connect(r.t.Context(), rdmacm.ConnParam{
		PrivateData: wire.PrivateData{SendSize: rawHalf, ReceiveSize: rawHalf}.Append(nil),
	}))
	return p
}

func (p *rawPeer) receive(t testing.TB) {
	t.Helper()
	if _, err := p.qp.PostRecv([]verbs.RecvWR{{ID: 1, SGL: []verbs.SGE{{MR: p.mr, Offset: rawHalf, Length: rawHalf}}}}); err != nil {
		t.Fatal(err)
	}
}

// exchange sends a message and gives the answer.
func (p *rawPeer) exchange(t *testing.T, h *rpcrdma1.Header, body string) []byte {
	t.Helper()
	n := copy(p.b, append(h.Append(nil), body...))
	if _, err := p.qp.PostSend([]verbs.SendWR{{ID: 2, Op: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{MR: p.mr, Length: n}}}}); err != nil {
		t.Fatal(err)
	}
	var wc [4]verbs.WC
	for {
		must(t, p.cq.Wait(t.Context()))
		for _, c := range wc[:p.cq.Poll(wc[:])] {
			if c.Status != verbs.WCSuccess {
				t.Fatalf("completion %+v", c)
			}
			if c.ID != 1 {
				continue
			}
			answer := bytes.Clone(p.b[rawHalf : rawHalf+c.ByteLen])
			p.receive(t)
			return answer
		}
	}
}

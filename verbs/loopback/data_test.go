package loopback

import (
	"bytes"
	"context"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// node is one end with what a test needs around it.
type node struct {
	t  testing.TB
	id rdmacm.ID
	pd verbs.PD
	cq verbs.CQ
	qp verbs.QP
	mr verbs.MR
}

const (
	testWR         = 64
	testBuf        = 64 << 10
	allLocalRemote = verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead
)

func newNode(t testing.TB, id rdmacm.ID) *node {
	t.Helper()
	n := &node{t: t, id: id}
	var err error
	n.pd, err = id.Device().AllocPD()
	n.check(err)
	n.cq, err = id.Device().CreateCQ(4 * testWR)
	n.check(err)
	n.qp, err = id.CreateQP(n.pd, verbs.QPAttr{
		SendCQ: n.cq, RecvCQ: n.cq, MaxSendWR: testWR, MaxRecvWR: testWR, MaxSendSGE: 4, MaxRecvSGE: 4,
	})
	n.check(err)
	n.mr, err = n.pd.RegMR(make([]byte, testBuf), allLocalRemote)
	n.check(err)
	return n
}

func (n *node) check(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) close() {
	n.check(n.id.Close())
	n.check(n.mr.Close())
	n.check(n.cq.Close())
	n.check(n.pd.Close())
}

func (n *node) send(wrs ...verbs.SendWR) {
	n.t.Helper()
	_, err := n.qp.PostSend(wrs)
	n.check(err)
}

func (n *node) recv(id uint64, off, size int) {
	n.t.Helper()
	_, err := n.qp.PostRecv([]verbs.RecvWR{{ID: id, SGL: []verbs.SGE{{MR: n.mr, Offset: off, Length: size}}}})
	n.check(err)
}

func (n *node) next() verbs.WC {
	n.t.Helper()
	n.check(n.cq.Wait(context.Background()))
	var wc [1]verbs.WC
	n.cq.Poll(wc[:])
	return wc[0]
}

// connect makes a connection within one provider.
func connect(t testing.TB, p *Provider) (a, b *node) {
	t.Helper()
	ctx := context.Background()
	l, err := p.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	done := make(chan *node)
	go func() {
		id, err := l.GetRequest(ctx)
		if err != nil {
			t.Error(err)
			close(done)
			return
		}
		n := newNode(t, id)
		if err := id.Accept(ctx, rdmacm.ConnParam{ResponderResources: 4, InitiatorDepth: 4}); err != nil {
			t.Error(err)
		}
		done <- n
	}()
	id, err := p.Resolve(ctx, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a = newNode(t, id)
	if err := id.Connect(ctx, rdmacm.ConnParam{ResponderResources: 4, InitiatorDepth: 4}); err != nil {
		t.Fatal(err)
	}
	return a, <-done
}

func TestSendWriteRead(t *testing.T) {
	p := New(Config{})
	a, b := connect(t, p)
	copy(a.mr.Bytes(), "hello, memory")
	b.recv(7, 100, 50)
	a.send(verbs.SendWR{ID: 1, Op: verbs.OpRDMAWrite, SGL: []verbs.SGE{{MR: a.mr, Length: 13}}, RemoteAddr: b.mr.Addr() + 200, RKey: b.mr.RKey()},
		verbs.SendWR{ID: 2, Op: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{MR: a.mr, Length: 5}}})
	if wc := b.next(); wc != (verbs.WC{ID: 7, Op: verbs.WCRecv, QPNum: b.qp.Num(), ByteLen: 5}) {
		t.Fatalf("receive: %+v", wc)
	}
	if wc := a.next(); wc != (verbs.WC{ID: 2, Op: verbs.WCSend, QPNum: a.qp.Num()}) {
		t.Fatalf("send: %+v", wc)
	}
	if got := b.mr.Bytes()[200:213]; !bytes.Equal(got, []byte("hello, memory")) {
		t.Fatalf("written: %q", got)
	}
	b.send(verbs.SendWR{ID: 3, Op: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{MR: b.mr, Offset: 300, Length: 6}}, RemoteAddr: a.mr.Addr() + 7, RKey: a.mr.RKey()})
	if wc := b.next(); wc != (verbs.WC{ID: 3, Op: verbs.WCRDMARead, QPNum: b.qp.Num(), ByteLen: 6}) {
		t.Fatalf("read: %+v", wc)
	}
	if got := b.mr.Bytes()[300:306]; !bytes.Equal(got, []byte("memory")) {
		t.Fatalf("read: %q", got)
	}
	a.close()
	<-b.id.Disconnected()
	if err := b.qp.Err(); err != verbs.ErrDisconnected {
		t.Fatalf("end: %v", err)
	}
	b.close()
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// Nothing is allocated per request once the rings have grown.
func TestNoAllocation(t *testing.T) {
	p := New(Config{})
	a, b := connect(t, p)
	defer a.close()
	defer b.close()
	recv := []verbs.RecvWR{{ID: 7, SGL: []verbs.SGE{{MR: b.mr, Length: 4096}}}}
	send := []verbs.SendWR{
		{ID: 1, Op: verbs.OpRDMAWrite, SGL: []verbs.SGE{{MR: a.mr, Length: 1000}}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
		{ID: 2, Op: verbs.OpRDMARead, SGL: []verbs.SGE{{MR: a.mr, Length: 1000}}, RemoteAddr: b.mr.Addr(), RKey: b.mr.RKey()},
		{ID: 3, Op: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{MR: a.mr, Length: 1000}}},
	}
	wc := make([]verbs.WC, 8)
	round := func() {
		_, err := b.qp.PostRecv(recv)
		b.check(err)
		_, err = a.qp.PostSend(send)
		a.check(err)
		if a.cq.Poll(wc) != 1 || b.cq.Poll(wc) != 1 {
			t.Fatal("completions missing")
		}
	}
	for range 20 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations per round", n)
	}
}

package dataplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/loopback"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

func sendMax(n uint32) Resolver { return resolver(func(s *rpcrdma.Settings) { s.InlineSendMax = n }) }

// TestRaisedSendMaxIsHeld: 1024 bytes were announced to a peer. When the setting is
// raised and the peer connects again, no larger size is announced; effects and the
// connection say so. A listener that is added anew has forgotten it.
func TestRaisedSendMaxIsHeld(t *testing.T) {
	p := newPlane(t, Config{Resolver: sendMax(1024)})
	address := p.listen("nfs", echo.New())
	p.Start()
	const held = "held at 1024 bytes: this size was announced to the peer, and it may keep receives of this size until it has had no connection for 1h0m0s"
	c, info := p.dial(address, nil)
	effects := p.applied(everything(sendMax(4096), settings.InlineSendMax))
	if want := (effect{info.ID, settings.PendingReconnect, "inline.send_max: " + held}); len(effects) != 1 || effects[0] != want {
		t.Errorf("%+v, want %+v", effects, want)
	}
	p.next(ConnChanged)
	c.Close()
	p.next(ConnDown)
	c, info = p.dial(address, nil)
	if s := p.Stats()[0]; s.Receivers != 1 || s.SendHeld != 1 {
		t.Errorf("%d peers remembered, %d connections held", s.Receivers, s.SendHeld)
	}
	shown, err := p.Connection(info.ID)
	if err != nil || shown.InlineSend != 1024 || shown.SendHeld != held {
		t.Errorf("%d bytes, %q, %v", shown.InlineSend, shown.SendHeld, err)
	}
	effects = p.foreseen(everything(sendMax(1024), settings.InlineSendMax))
	if want := (effect{ConnID: info.ID, Outcome: settings.Applied}); len(effects) != 1 || effects[0] != want {
		t.Errorf("%+v, want %+v", effects, want)
	}
	c.Close()
	p.next(ConnDown)
	p.listener("nfs").Remove(t.Context())
	c, info = p.dial(p.listen("nfs", echo.New()), nil)
	defer c.Close()
	if s := p.Stats()[0]; s.Receivers != 1 || s.SendHeld != 0 {
		t.Errorf("%d peers remembered, %d connections held", s.Receivers, s.SendHeld)
	}
	if shown, err := p.Connection(info.ID); err != nil || shown.InlineSend != 4096 || shown.SendHeld != "" {
		t.Errorf("after the listener was added anew: %d bytes, %q, %v", shown.InlineSend, shown.SendHeld, err)
	}
}

// TestReceiversStayAtTheAddress: a listener that takes over an address knows what was announced to
// the peers there.
func TestReceiversStayAtTheAddress(t *testing.T) {
	p := newPlane(t, Config{Resolver: sendMax(1024)})
	address := p.listen("nfs", echo.New())
	p.Start()
	c, _ := p.dial(address, nil)
	p.ApplySettings(Update{Resolve: sendMax(4096)}, nil)
	p.next(ConnChanged)
	old := p.listener("nfs")
	if _, err := p.add(ListenerConfig{Name: "renamed", Provider: p.judged, Service: "echo", Handler: echo.New(), From: old}); err != nil {
		t.Fatal(err)
	}
	old.Remove(t.Context())
	<-c.Done()
	p.next(ConnDown)
	c, info := p.dial(address, nil)
	defer c.Close()
	shown, err := p.Connection(info.ID)
	if err != nil || shown.Listener != "renamed" || shown.InlineSend != 1024 || shown.SendHeld == "" {
		t.Errorf("listener %s, %d bytes, %q, %v", shown.Listener, shown.InlineSend, shown.SendHeld, err)
	}
}

// TestReceiversWithoutConnection: the time after which a peer is forgotten begins when its last
// connection ends.
func TestReceiversWithoutConnection(t *testing.T) {
	p := newPlane(t, Config{Resolver: sendMax(1024)})
	address := p.listen("nfs", echo.New())
	p.Start()
	first, _ := p.dial(address, nil)
	second, _ := p.dial(address, nil)
	r := p.listener("nfs").receivers
	for i, c := range []interface{ Close() error }{first, second} {
		c.Close()
		p.next(ConnDown)
		r.mu.Lock()
		for who, s := range r.known {
			if left := 1 - i; s.up != left || s.stale(time.Now().Add(forgetReceiver)) != (left == 0) {
				t.Errorf("%v has %d connections, want %d; it left at %v", who, s.up, left, s.left)
			}
		}
		r.mu.Unlock()
	}
	if n := r.remembered(); n != 1 {
		t.Errorf("%d peers remembered", n)
	}
}

// TestPeersThatTellAreNotHeld: with characteristics a peer announces its receives on each
// connection, so that earlier announcements do not count.
func TestPeersThatTellAreNotHeld(t *testing.T) {
	version2 := func(n uint32) Resolver {
		return resolver(func(s *rpcrdma.Settings) {
			s.InlineSendMax, s.Extensions = n, rpcrdma.ExtV2|rpcrdma.ExtCharacteristics
		})
	}
	p := newPlane(t, Config{Resolver: version2(4096)})
	address := p.listen("nfs", echo.New())
	p.Start()
	s := version2(8192)(ConnKey{})
	s.InlineReceiveSize = 8192
	c, _ := p.dial(address, s)
	c.Close()
	p.next(ConnDown)
	p.ApplySettings(Update{Resolve: version2(8192)}, nil)
	c, info := p.dial(address, s)
	defer c.Close()
	if err := null(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if shown, err := p.Connection(info.ID); err != nil || shown.InlineSend != 8192 || shown.SendHeld != "" {
		t.Errorf("%d bytes, %q, %v", shown.InlineSend, shown.SendHeld, err)
	}
}

// TestPeerWithSmallerReceives: rdmad has forgotten a client that kept its small receives. The
// first larger reply ends the connection. After that, the size that every peer takes is
// announced to the client, with one line in the log.
func TestPeerWithSmallerReceives(t *testing.T) {
	for name, network := range map[string]loopback.FabricConfig{
		"iWARP": {}, "InfiniBand": {Transport: loopback.InfiniBand},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlaneOn(t, network, Config{})
			address := p.listen("nfs", echo.New())
			p.Start()
			for i, told := range []uint32{4096, 1024, 1024} {
				if got := p.keep(address, 1024); got != told {
					t.Errorf("connection %d is told of %d bytes, want %d", i, got, told)
				}
			}
			lines := p.log.Lines("smaller receives")
			if len(lines) != 1 || !strings.Contains(lines[0], "told=4096 next=1024 forgotten_after=1h0m0s") {
				t.Errorf("the log says %q", lines)
			}
		})
	}
}

// keep makes one connection as a client that keeps receives of a size, and one call. If the
// receives are larger than that, a reply of 3000 bytes answers it. keep returns the announced
// size.
func (p *plane) keep(address string, size int) (told uint32) {
	p.t.Helper()
	ctx := p.t.Context()
	ok := func(err error) {
		p.t.Helper()
		if err != nil {
			p.t.Fatal(err)
		}
	}
	id, err := p.p.Resolve(ctx, address)
	ok(err)
	defer id.Close()
	pd, err := id.Device().AllocPD()
	ok(err)
	defer pd.Close()
	cq, err := id.Device().CreateCQ(16)
	ok(err)
	defer cq.Close()
	qp, err := id.CreateQP(pd, verbs.QPAttr{SendCQ: cq, RecvCQ: cq, MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1})
	ok(err)
	const chunk = 4096
	mr, err := pd.RegMR(make([]byte, 2*chunk+size), verbs.AccessLocalWrite|verbs.AccessRemoteWrite)
	ok(err)
	defer mr.Close()
	_, err = qp.PostRecv([]verbs.RecvWR{{SGL: []verbs.SGE{{MR: mr, Offset: 2 * chunk, Length: size}}}})
	ok(err)
	ok(id.Connect(ctx, rdmacm.ConnParam{PrivateData: wire.PrivateData{SendSize: 4096, ReceiveSize: 4096}.Append(nil), ResponderResources: 1, InitiatorDepth: 1}))
	p.next(ConnUp)
	answer, _ := wire.ParsePrivateData(id.Peer().PrivateData)
	h := rpcrdma1.Header{XID: 1, Version: 1, Credits: 1, HasReply: true,
		Reply: rpcrdma1.WriteChunk{{Handle: mr.RKey(), Length: chunk, Offset: mr.Addr() + chunk}}}
	msg := oncrpc.AppendCall(h.Append(nil), &oncrpc.Call{XID: 1, Program: echo.Program, Version: echo.Version, Procedure: echo.ProcEcho})
	msg = xdr.AppendOpaque(msg, make([]byte, 3000))
	copy(mr.Bytes(), msg)
	_, err = qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, SGL: []verbs.SGE{{MR: mr, Length: len(msg)}}}})
	ok(err)
	var wc [1]verbs.WC
	for cq.Poll(wc[:]) == 0 {
		ok(cq.Wait(ctx))
	}
	if fits := wc[0].Status == verbs.WCSuccess; fits != (answer.SendSize <= uint32(size)) {
		p.t.Errorf("with receives of %d bytes the reply came as %v", size, fmt.Sprint(wc[0].Status))
	}
	id.Close()
	p.next(ConnDown)
	return answer.SendSize
}

package interop

import (
	"bytes"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// bare is a connection to the server on bare verbs.
type bare struct {
	t          *testing.T
	id         rdmacm.ID
	pd         verbs.PD
	cq         verbs.CQ
	qp         verbs.QP
	send, recv verbs.MR
}

const (
	bareSize  = 4096
	bareDepth = 8
	// probeXID is of all messages sent on bare verbs.
	probeXID = 0x20
)

func (b *bare) ok(err error) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
}

// dialBare connects with room for bareDepth messages of the server.
func (s *kernelServer) dialBare(t *testing.T, p rdmacm.Provider) *bare {
	t.Helper()
	ctx, cancel := limit(t, knfsdTime)
	defer cancel()
	b := &bare{t: t}
	var err error
	b.id, err = p.Resolve(ctx, s.address)
	b.ok(err)
	b.pd, err = b.id.Device().AllocPD()
	b.ok(err)
	b.cq, err = b.id.Device().CreateCQ(2 * bareDepth)
	b.ok(err)
	b.send, err = b.pd.RegMR(make([]byte, bareSize), 0)
	b.ok(err)
	b.recv, err = b.pd.RegMR(make([]byte, bareDepth*bareSize), verbs.AccessLocalWrite)
	b.ok(err)
	b.qp, err = b.id.CreateQP(b.pd, verbs.QPAttr{SendCQ: b.cq, RecvCQ: b.cq, MaxSendWR: bareDepth, MaxRecvWR: bareDepth, MaxSendSGE: 1, MaxRecvSGE: 1})
	b.ok(err)
	for i := range bareDepth {
		_, err = b.qp.PostRecv([]verbs.RecvWR{{ID: uint64(i), SGL: []verbs.SGE{{MR: b.recv, Offset: i * bareSize, Length: bareSize}}}})
		b.ok(err)
	}
	private := wire.PrivateData{SendSize: bareSize, ReceiveSize: bareSize}.Append(nil)
	s.slowly(t, func() {
		b.ok(b.id.Connect(ctx, rdmacm.ConnParam{PrivateData: private, ResponderResources: 1, InitiatorDepth: 1}))
	})
	return b
}

func (b *bare) close() {
	b.ok(b.id.Close())
	for _, c := range []interface{ Close() error }{b.send, b.recv, b.cq, b.pd} {
		b.ok(c.Close())
	}
}

// exchange sends a message and returns the answer.
func (b *bare) exchange(msg []byte) []byte {
	b.t.Helper()
	ctx, cancel := limit(b.t, knfsdTime)
	defer cancel()
	copy(b.send.Bytes(), msg)
	_, err := b.qp.PostSend([]verbs.SendWR{{Op: verbs.OpSend, Flags: verbs.SendSignaled, SGL: []verbs.SGE{{MR: b.send, Length: len(msg)}}}})
	b.ok(err)
	var answer []byte
	for sent := false; !sent || answer == nil; {
		b.ok(b.cq.Wait(ctx))
		var wc [1]verbs.WC
		b.cq.Poll(wc[:])
		switch {
		case wc[0].Status != verbs.WCSuccess:
			b.t.Fatalf("%v: %v", wc[0].Status, b.qp.Err())
		case wc[0].Op == verbs.WCSend:
			sent = true
		default:
			at := int(wc[0].ID) * bareSize
			answer = b.recv.Bytes()[at : at+wc[0].ByteLen]
		}
	}
	return answer
}

// testVersionProbe sends a call of version 2, as a client does that wants to
// know what the server speaks, and goes on in version 1 on the same connection.
func testVersionProbe(t *testing.T, s *kernelServer, p rdmacm.Provider) {
	b := s.dialBare(t, p)
	defer b.close()
	null := oncrpc.AppendCall(nil, &oncrpc.Call{XID: probeXID, Program: 100003, Version: 3})
	for _, version := range []uint32{2, 0, 0xffffffff} {
		probe := rpcrdma1.Header{XID: probeXID, Version: version, Credits: 32}
		answer := b.exchange(append(probe.Append(nil), null...))
		want := rpcrdma1.Header{XID: probeXID, Version: version, Credits: 64, Proc: rpcrdma1.Error, Err: rpcrdma1.ErrVers, Low: 1, High: 1}
		if got := want.Append(nil); !bytes.Equal(answer, got) {
			t.Errorf("version %d was answered with %x, want ERR_VERS, versions 1 to 1: %x", version, answer, got)
		}
	}
	call := rpcrdma1.Header{XID: probeXID, Version: 1, Credits: 32}
	answer := b.exchange(append(call.Append(nil), null...))
	var h rpcrdma1.Header
	n, err := h.Decode(answer)
	b.ok(err)
	var reply oncrpc.ReplyHeader
	if _, err := oncrpc.DecodeReply(answer[n:], &reply); err != nil || h.Proc != rpcrdma1.Msg || reply.XID != probeXID {
		t.Errorf("after the probes a call was answered with %+v, %v", h, err)
	}
}

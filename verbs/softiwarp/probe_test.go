package softiwarp

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestProbe: a probe sees what the listener's consumer answers, and needs no
// queue pair.
func TestProbe(t *testing.T) {
	for name, reject := range map[string]bool{"accepted": false, "rejected": true} {
		t.Run(name, func(t *testing.T) {
			l := must(newProvider(t, Config{CRC: true}).Listen(t.Context(), "127.0.0.1:0"))(t)
			defer l.Close()
			answered := make(chan struct{})
			go func() {
				defer close(answered)
				answerOne(t, l, reject)
			}()
			conn := must(net.Dial("tcp", l.Addr().String()))(t)
			defer conn.Close()
			h := must(newProvider(t, Config{}).Probe(t.Context(), conn.(*net.TCPConn), rdmacm.ConnParam{ResponderResources: 4, InitiatorDepth: 4}))(t)
			<-answered
			if h.Revision != 2 || h.Rejected != reject || h.CRC == reject || !bytes.Equal(h.PrivateData, []byte("hello")) {
				t.Errorf("%+v", h)
			}
			if !reject && (h.RTR != "write" || h.Responder != 2 || h.Initiator != 3) {
				t.Errorf("%+v", h)
			}
		})
	}
}

// TestProbeAnnounces: a probe sends the RTR indication that the reply chose before it closes,
// and nothing else. Linux's iw_cm (6.12) ends in a BUG if the connection closes before it.
func TestProbeAnnounces(t *testing.T) {
	for name, c := range map[string]struct {
		chosen mpa.RTR
		opcode rdmap.Opcode
	}{
		"write": {mpa.RTRWrite, rdmap.Write}, "read": {mpa.RTRRead, rdmap.ReadRequest}, "send": {mpa.RTRSend, rdmap.Send},
	} {
		t.Run(name, func(t *testing.T) {
			l := must(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer l.Close()
			conn := must(net.Dial("tcp", l.Addr().String()))(t)
			p, probed := newProvider(t, Config{}), make(chan error, 1)
			go func() {
				h, err := p.Probe(context.Background(), conn.(*net.TCPConn), testParam)
				conn.Close()
				if err == nil && h.RTR != name {
					err = fmt.Errorf("the probe says %+v", h)
				}
				probed <- err
			}()
			peer := newRawPeer(t, must(l.Accept())(t))
			must(readFrame(peer.conn, mpa.Request))(t)
			peer.frame(mpa.Frame{
				Kind: mpa.Reply, Revision: mpa.Revision2, Enhanced: true,
				EnhancedData: mpa.Enhanced{IRD: 4, ORD: 4, PeerToPeer: true, RTR: c.chosen},
			})
			_, payload := peer.expect(c.opcode)
			if c.chosen != mpa.RTRRead && len(payload) > 0 {
				t.Errorf("an indication of %d bytes: %x", len(payload), payload)
			}
			peer.ended()
			verbstest.Should(t, <-probed)
		})
	}
}

// answerOne accepts or rejects one request.
func answerOne(t *testing.T, l rdmacm.Listener, reject bool) {
	id, err := l.GetRequest(context.Background())
	if err != nil {
		t.Error(err)
		return
	}
	param := rdmacm.ConnParam{PrivateData: []byte("hello"), ResponderResources: 2, InitiatorDepth: 3}
	if reject {
		err = id.Reject(context.Background(), param.PrivateData)
		id.Close()
	} else {
		newSide(t, l.(*listener).p, id, verbs.QPAttr{MaxSendWR: 1, MaxRecvWR: 1, MaxSendSGE: 1, MaxRecvSGE: 1})
		err = id.Accept(context.Background(), param)
	}
	verbstest.Should(t, err)
}

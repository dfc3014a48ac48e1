package softiwarp

import (
	"bytes"
	"context"
	"net"
	"testing"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
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
	if err != nil {
		t.Error(err)
	}
}

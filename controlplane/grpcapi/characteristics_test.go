package grpcapi

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// Each end's characteristics are told, once the peer has the extension.
func TestCharacteristics(t *testing.T) {
	var c dataplane.ConnInfo
	c.Characteristics.Own, c.Characteristics.Peer = rpcrdma2.DefaultValues(), rpcrdma2.DefaultValues()
	if got := characteristics(&c); got != nil {
		t.Errorf("without the extension: %v", got)
	}
	c.Characteristics.Spoken = true
	c.Characteristics.Peer = rpcrdma2.Values{
		ReceiveSize: 65536, Invalidation: true, Backward: rpcrdma2.BackwardGeneral,
		RTR: rpcrdma2.RTRRequest | rpcrdma2.RTRResponse | rpcrdma2.RTRContinue, RequestReceive: 8, ResponseSend: 7,
		Buffer: rpcrdma2.Buffer{Length: 65536, Groups: []rpcrdma2.BufferGroup{
			{Count: 1, Length: 4096, Align: 4}, {Count: 15, Length: 4096, Align: 4096, Flags: rpcrdma2.TargetableFlag},
		}},
	}
	want := &rdmadv1.Characteristics{
		Own: &rdmadv1.CharacteristicValues{ReceiveSize: 4096, Backward: "inline", RequestTransmissions: 1, ResponseTransmissions: 1},
		Peer: &rdmadv1.CharacteristicValues{
			ReceiveSize: 65536, RemoteInvalidation: true, Backward: "general", Rtr: []string{"xreq", "xresp", "xcont"},
			Targets:              []*rdmadv1.BufferSegments{{Count: 15, Length: 4096, Align: 4096}},
			RequestTransmissions: 8, ResponseTransmissions: 7,
		},
	}
	if got := characteristics(&c); !proto.Equal(got, want) {
		t.Errorf("told\n%v\nwant\n%v", got, want)
	}
}

package grpcapi

import (
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// characteristics are those that both sides announced; nil if the peer does not
// have the extension.
func characteristics(c *dataplane.ConnInfo) *rdmadv1.Characteristics {
	if !c.Characteristics.Spoken {
		return nil
	}
	return &rdmadv1.Characteristics{Own: values(&c.Characteristics.Own), Peer: values(&c.Characteristics.Peer)}
}

// backward names the levels of Backward Request Support.
var backward = [...]string{rpcrdma2.BackwardNone: "none", rpcrdma2.BackwardInline: "inline", rpcrdma2.BackwardGeneral: "general"}

// rtr names the bits of RTR Support.
var rtr = [...]struct {
	bit  rpcrdma2.RTR
	name string
}{{rpcrdma2.RTRRequest, "xreq"}, {rpcrdma2.RTRResponse, "xresp"}, {rpcrdma2.RTRContinue, "xcont"}}

func values(v *rpcrdma2.Values) *rdmadv1.CharacteristicValues {
	out := &rdmadv1.CharacteristicValues{
		ReceiveSize: v.ReceiveSize, RemoteInvalidation: v.Invalidation, Backward: backward[v.Backward],
		RequestTransmissions: v.RequestReceive, ResponseTransmissions: v.ResponseSend,
	}
	for _, r := range rtr {
		if v.RTR&r.bit != 0 {
			out.Rtr = append(out.Rtr, r.name)
		}
	}
	for _, g := range v.Buffer.Groups {
		if g.Flags&rpcrdma2.TargetableFlag != 0 {
			out.Targets = append(out.Targets, &rdmadv1.BufferSegments{Count: g.Count, Length: g.Length, Align: g.Align})
		}
	}
	return out
}

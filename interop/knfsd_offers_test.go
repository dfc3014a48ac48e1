package interop

import (
	"context"
	"sync"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// offers are the transport headers that we sent, by XID. A call that is sent
// again on another connection has several.
type offers struct {
	mu      sync.Mutex
	headers map[uint32][]rpcrdma1.Header
	bad     []error
}

func newOffers() *offers { return &offers{headers: map[uint32][]rpcrdma1.Header{}} }

// record returns a provider whose connections record every Send in s.offers.
func (s *kernelServer) record(p rdmacm.Provider) rdmacm.Provider {
	return recordingProvider{p, s.offers}
}

func (o *offers) add(msg []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	var h rpcrdma1.Header
	if _, err := h.Decode(msg); err != nil {
		o.bad = append(o.bad, err)
		return
	}
	o.headers[h.XID] = append(o.headers[h.XID], h)
}

type recordingProvider struct {
	rdmacm.Provider
	offers *offers
}

func (p recordingProvider) Resolve(ctx context.Context, address string) (rdmacm.ID, error) {
	id, err := p.Provider.Resolve(ctx, address)
	if err != nil {
		return nil, err
	}
	return recordingID{id, p.offers}, nil
}

type recordingID struct {
	rdmacm.ID
	offers *offers
}

func (id recordingID) CreateQP(pd verbs.PD, attr verbs.QPAttr) (verbs.QP, error) {
	qp, err := id.ID.CreateQP(pd, attr)
	if err != nil {
		return nil, err
	}
	return recordingQP{qp, id.offers}, nil
}

type recordingQP struct {
	verbs.QP
	offers *offers
}

func (qp recordingQP) PostSend(wrs []verbs.SendWR) (int, error) {
	for i := range wrs {
		if wrs[i].Op == verbs.OpSend {
			qp.offers.add(gather(wrs[i].SGL))
		}
	}
	return qp.QP.PostSend(wrs)
}

func gather(sgl []verbs.SGE) []byte {
	var msg []byte
	for _, e := range sgl {
		msg = append(msg, e.MR.Bytes()[e.Offset:e.Offset+e.Length]...)
	}
	return msg
}

package softiwarp

import (
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// takeReadRequest queues a peer's RDMA Read.
func (r *receiver) takeReadRequest(s *segment) bool {
	q := r.q
	var req rdmap.Read
	n, err := req.Decode(s.payload)
	switch {
	case s.MSN != r.readMSN:
		return r.refuse(rdmap.UntaggedMSNRange, s)
	case s.MO != 0:
		return r.refuse(rdmap.UntaggedInvalidMO, s)
	case err != nil || !s.Last:
		return r.refuse(rdmap.OperationUnspecified, s)
	case n != len(s.payload):
		return r.refuse(rdmap.UntaggedTooLong, s)
	case q.inbound.full():
		return r.refuse(rdmap.UntaggedNoBuffer, s)
	}
	in := inboundRead{Read: req, msn: s.MSN}
	if v := r.checkSource(&req); v != driver.Allowed {
		return r.terminate(refusedReadTerm(v, &in))
	}
	r.readMSN++
	q.Lock()
	q.inbound.put(in)
	q.Unlock()
	r.kick = true
	return true
}

// checkSource checks the memory that a Read Request names, before any response is sent.
// Each response segment checks it again.
func (r *receiver) checkSource(req *rdmap.Read) driver.Verdict {
	if req.Size == 0 {
		// Nothing is accessed, so any STag is accepted.
		return driver.Allowed
	}
	reg, v := r.q.dev.Tags.Reach(&r.q.QP, verbs.AccessRemoteRead, req.SrcSTag, req.SrcTO, int(req.Size))
	if v == driver.Allowed {
		reg.Unpin()
	}
	return v
}

// placeReadResponse copies a segment of a Read Response into the sink of the oldest Read.
// The response must be the requested bytes, in order (RFC 5040 §5.2, §5.5).
func (r *receiver) placeReadResponse(s *segment) bool {
	q := r.q
	if q.outstanding() <= 0 {
		return r.refuse(rdmap.UnexpectedOpcode, s)
	}
	if r.rtrRead {
		return r.takeRTRResponse(s)
	}
	e := q.sq.read(q.readsDone.Load() + 1)
	fault, ok := r.checkResponse(s, e)
	if !ok {
		r.end.readStatus = verbs.WCBadRespErr
		return r.refuse(fault, s)
	}
	if len(s.payload) > 0 {
		copy(e.pieces[0].b[r.readGot:], s.payload)
		r.readGot += len(s.payload)
	}
	if s.Last {
		r.readGot = 0
		if q.readDone(e) {
			r.wakeSend = true
		}
		r.kick = true
	}
	return true
}

func (r *receiver) checkResponse(s *segment, e *sendEntry) (rdmap.Fault, bool) {
	switch {
	case s.STag != e.sinkSTag:
		return rdmap.TaggedInvalidSTag, false
	case s.TO != uint64(r.readGot):
		return rdmap.TaggedBaseOrBounds, false
	case len(s.payload) > e.length-r.readGot:
		return rdmap.TaggedBaseOrBounds, false
	case s.Last && len(s.payload) != e.length-r.readGot:
		return rdmap.TaggedBaseOrBounds, false
	}
	return rdmap.Fault{}, true
}

// takeRTRResponse accepts the empty response to the Read that was the RTR indication.
func (r *receiver) takeRTRResponse(s *segment) bool {
	if len(s.payload) != 0 || !s.Last {
		return r.refuse(rdmap.TaggedBaseOrBounds, s)
	}
	r.rtrRead = false
	r.q.Lock()
	r.q.readsDone.Add(1)
	r.q.Unlock()
	r.kick = true
	return true
}

// readDone completes a Read whose data has arrived. It returns what retireLocked returns.
func (q *queuePair) readDone(e *sendEntry) bool {
	q.Lock()
	defer q.Unlock()
	e.done = true
	q.readsDone.Add(1)
	return q.retireLocked()
}

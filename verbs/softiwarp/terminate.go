package softiwarp

import (
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/mpa"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// appendTerminate appends the FPDU of a Terminate message to b.
func appendTerminate(b []byte, t *rdmap.Term, crc bool) []byte {
	h := ddp.Header{Last: true, ULP: rdmap.Control(rdmap.Terminate), QN: ddp.QueueTerminate, MSN: 1}
	return mpa.AppendFPDU(b, t.Append(h.Append(nil)), crc)
}

func terminateError(f rdmap.Fault, remote bool) error {
	return &verbs.TerminateError{Remote: remote, Layer: f.Layer, Type: f.Type, Code: f.Code, Reason: f.String()}
}

// terminate ends the connection with the Terminate t. It always returns false, so that
// callers can return its result.
func (r *receiver) terminate(t *rdmap.Term) bool {
	r.end.cause, r.end.goodbye = terminateError(t.Fault, false), t
	return false
}

// refuse ends the connection because of the segment s, or of a segment that could not be
// decoded (nil). It always returns false, so that callers can return its result.
func (r *receiver) refuse(f rdmap.Fault, s *segment) bool {
	t := &rdmap.Term{Fault: f}
	if s != nil {
		t.HasSegment, t.SegmentLength = true, uint16(s.Size()+len(s.payload))
		t.HasDDP, t.DDP = true, s.Header
	}
	return r.terminate(t)
}

// writeFault returns the fault of an RDMA Write. It is a DDP fault, except for access
// rights, which only RDMAP knows (RFC 5040 §7.2).
func writeFault(v verdict) rdmap.Fault {
	switch v {
	case notAssociated:
		return rdmap.TaggedNotAssociated
	case noRight:
		return rdmap.AccessRights
	case wraps:
		return rdmap.TaggedTOWrap
	case outOfBounds:
		return rdmap.TaggedBaseOrBounds
	}
	return rdmap.TaggedInvalidSTag
}

// readFault returns the fault of an RDMA Read Request's source.
func readFault(v verdict) rdmap.Fault {
	switch v {
	case notAssociated:
		return rdmap.STagNotAssociated
	case noRight:
		return rdmap.AccessRights
	case wraps:
		return rdmap.TOWrap
	case outOfBounds:
		return rdmap.BaseOrBounds
	}
	return rdmap.InvalidSTag
}

// refusedReadTerm returns the Terminate for a Read Request whose source may not be read.
// It includes the request's headers, by which the peer finds the request.
func refusedReadTerm(v verdict, in *inboundRead) *rdmap.Term {
	return &rdmap.Term{
		Fault:         readFault(v),
		HasSegment:    true,
		SegmentLength: ddp.UntaggedSize + rdmap.ReadRequestSize,
		HasDDP:        true,
		DDP: ddp.Header{
			Last: true, ULP: rdmap.Control(rdmap.ReadRequest), QN: ddp.QueueReadRequest, MSN: in.msn,
		},
		HasRead: true,
		Read:    in.Read,
	}
}

func refusedRead(v verdict, in *inboundRead) txFault {
	t := refusedReadTerm(v, in)
	return txFault{cause: terminateError(t.Fault, false), goodbye: t}
}

// takeTerminate ends the connection because the peer sent a Terminate. The answer to a
// Terminate is never a Terminate.
func (r *receiver) takeTerminate(s *segment) bool {
	var t rdmap.Term
	if _, err := t.Decode(s.payload); err != nil {
		t.Fault = rdmap.OperationUnspecified
	}
	r.end.cause = terminateError(t.Fault, true)
	r.end.received = &t
	return false
}

// attributeLocked finds the request that a peer's Terminate is about. If the request is
// still in the send queue, it fails with the matching status.
func (q *queuePair) attributeLocked(t *rdmap.Term) {
	status := remoteStatus(t.Fault)
	switch {
	case t.HasDDP && !t.DDP.Tagged && t.DDP.QN == ddp.QueueReadRequest:
		q.blameReadLocked(t, status)
	case t.HasDDP && !t.DDP.Tagged && t.DDP.QN == ddp.QueueSend:
		q.blameSendLocked(t.DDP.MSN, status)
	case t.HasDDP && t.DDP.Tagged:
		q.blameWriteLocked(t.DDP.STag, t.DDP.TO, status)
	case t.Layer == rdmap.LayerRDMAP && t.Type == rdmap.TypeRDMAPProtection:
		q.blameOldestReadLocked(status)
	}
}

// blameReadLocked finds a Read by its sink STag, which is unique. The MSN that Linux siw
// reports is not always the request's.
func (q *queuePair) blameReadLocked(t *rdmap.Term, status verbs.WCStatus) {
	for pos := q.sq.head; pos != q.sq.tail; pos++ {
		if e := q.sq.at(pos); e.op == verbs.OpRDMARead && t.HasRead && e.sinkSTag == t.Read.SinkSTag {
			q.blameLocked(pos, status)
			return
		}
	}
	q.blameOldestReadLocked(status)
}

func (q *queuePair) blameSendLocked(msn uint32, status verbs.WCStatus) {
	for pos := q.sq.head; pos != q.sq.tail; pos++ {
		e := q.sq.at(pos)
		if (e.op == verbs.OpSend || e.op == verbs.OpSendInvalidate) && e.msn == msn {
			q.blameLocked(pos, status)
			return
		}
	}
}

func (q *queuePair) blameWriteLocked(stag uint32, to uint64, status verbs.WCStatus) {
	for pos := q.sq.head; pos != q.sq.tail; pos++ {
		e := q.sq.at(pos)
		if e.op == verbs.OpRDMAWrite && e.rkey == stag && to-e.raddr < uint64(e.length) {
			q.blameLocked(pos, status)
			return
		}
	}
}

func (q *queuePair) blameOldestReadLocked(status verbs.WCStatus) {
	for pos := q.sq.head; pos != q.sq.tail; pos++ {
		if e := q.sq.at(pos); e.op == verbs.OpRDMARead && !e.done {
			q.blameLocked(pos, status)
			return
		}
	}
}

// remoteStatus returns the completion status for a peer's fault.
func remoteStatus(f rdmap.Fault) verbs.WCStatus {
	switch {
	case f == rdmap.UntaggedNoBuffer:
		return verbs.WCRNRRetryExcErr
	case f.Layer == rdmap.LayerDDP && f.Type == rdmap.TypeDDPTagged,
		f.Layer == rdmap.LayerRDMAP && f.Type == rdmap.TypeRDMAPProtection:
		return verbs.WCRemAccessErr
	case f.Layer == rdmap.LayerDDP && f.Type == rdmap.TypeDDPUntagged, f == rdmap.CannotInvalidate:
		return verbs.WCRemInvReqErr
	case f.Layer == rdmap.LayerRDMAP && f.Type == rdmap.TypeRDMAPOperation:
		return verbs.WCRemOpErr
	case f.Layer == rdmap.LayerRDMAP:
		return verbs.WCRemAbortErr
	}
	return verbs.WCFatalErr
}

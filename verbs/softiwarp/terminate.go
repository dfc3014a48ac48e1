package softiwarp

import (
	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
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

// writeFaults are the faults of an RDMA Write. They are DDP faults, except for access
// rights, which only RDMAP knows (RFC 5040 §7.2).
var writeFaults = [...]rdmap.Fault{
	driver.BadSTag:       rdmap.TaggedInvalidSTag,
	driver.NotAssociated: rdmap.TaggedNotAssociated,
	driver.NoRight:       rdmap.AccessRights,
	driver.Wraps:         rdmap.TaggedTOWrap,
	driver.OutOfBounds:   rdmap.TaggedBaseOrBounds,
}

// readFaults are the faults of an RDMA Read Request's source.
var readFaults = [...]rdmap.Fault{
	driver.BadSTag:       rdmap.InvalidSTag,
	driver.NotAssociated: rdmap.STagNotAssociated,
	driver.NoRight:       rdmap.AccessRights,
	driver.Wraps:         rdmap.TOWrap,
	driver.OutOfBounds:   rdmap.BaseOrBounds,
}

// refusedReadTerm returns the Terminate for a Read Request whose source may not be read.
// It includes the request's headers, by which the peer finds the request.
func refusedReadTerm(v driver.Verdict, in *inboundRead) *rdmap.Term {
	return &rdmap.Term{
		Fault:         readFaults[v],
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

func refusedRead(v driver.Verdict, in *inboundRead) txFault {
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
		// The sink STag is unique. The MSN that Linux siw reports is not always the
		// request's.
		found := q.blameFirstLocked(status, func(e *sendEntry) bool {
			return e.op == verbs.OpRDMARead && t.HasRead && e.sinkSTag == t.Read.SinkSTag
		})
		if !found {
			q.blameFirstLocked(status, waitingRead)
		}
	case t.HasDDP && !t.DDP.Tagged && t.DDP.QN == ddp.QueueSend:
		q.blameFirstLocked(status, func(e *sendEntry) bool {
			return (e.op == verbs.OpSend || e.op == verbs.OpSendInvalidate) && e.msn == t.DDP.MSN
		})
	case t.HasDDP && t.DDP.Tagged:
		q.blameFirstLocked(status, func(e *sendEntry) bool {
			return e.op == verbs.OpRDMAWrite && e.rkey == t.DDP.STag && t.DDP.TO-e.raddr < uint64(e.length)
		})
	case t.Layer == rdmap.LayerRDMAP && t.Type == rdmap.TypeRDMAPProtection:
		q.blameFirstLocked(status, waitingRead)
	}
}

func waitingRead(e *sendEntry) bool { return e.op == verbs.OpRDMARead && !e.done }

// blameFirstLocked fails the oldest request in the send queue that is the one meant, and
// reports whether there is one.
func (q *queuePair) blameFirstLocked(status verbs.WCStatus, meant func(*sendEntry) bool) bool {
	for pos := q.sq.head; pos != q.sq.tail; pos++ {
		if meant(q.sq.at(pos)) {
			q.blameLocked(pos, status)
			return true
		}
	}
	return false
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

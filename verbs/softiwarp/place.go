package softiwarp

import (
	"errors"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/ddp"
	"github.com/rdmad/rdmad/verbs/softiwarp/internal/rdmap"
)

// segment is one received DDP segment.
type segment struct {
	ddp.Header
	op      rdmap.Opcode
	payload []byte
}

// place checks one ULPDU and executes it. It returns false when the connection must end;
// r.end then has the reason.
func (r *receiver) place(ulpdu []byte) bool {
	indication := r.rtrSend
	r.rtrSend = false
	if indication && len(ulpdu) == 0 {
		return true // an empty FPDU is a valid indication, and no message
	}
	var s segment
	if !r.decode(&s, ulpdu) {
		return false
	}
	if indication && s.op == rdmap.Send && s.Last && s.MSN == 1 && len(s.payload) == 0 {
		// The indication uses up an MSN but no Receive.
		r.sendMSN++
		return true
	}
	switch s.op {
	case rdmap.Write:
		return r.placeWrite(&s)
	case rdmap.ReadResponse:
		return r.placeReadResponse(&s)
	case rdmap.ReadRequest:
		return r.takeReadRequest(&s)
	case rdmap.Terminate:
		return r.takeTerminate(&s)
	}
	return r.placeSend(&s)
}

// decode decodes the headers and checks that opcode, buffer model and queue match.
func (r *receiver) decode(s *segment, ulpdu []byte) bool {
	n, err := s.Decode(ulpdu)
	switch {
	case errors.Is(err, ddp.ErrVersion) && s.Tagged:
		return r.refuse(rdmap.TaggedInvalidVersion, nil)
	case errors.Is(err, ddp.ErrVersion):
		return r.refuse(rdmap.UntaggedInvalidVersion, nil)
	case err != nil:
		return r.refuse(rdmap.MPALength, nil)
	}
	s.payload = ulpdu[n:]
	s.op, err = rdmap.DecodeControl(s.ULP)
	switch {
	case errors.Is(err, rdmap.ErrVersion):
		return r.refuse(rdmap.InvalidRDMAPVersion, s)
	case err != nil || s.op.Tagged() != s.Tagged:
		return r.refuse(rdmap.UnexpectedOpcode, s)
	case s.Tagged:
		return true
	case s.QN > ddp.QueueTerminate:
		return r.refuse(rdmap.UntaggedInvalidQN, s)
	case s.QN != queueOf(s.op):
		return r.refuse(rdmap.UnexpectedOpcode, s)
	}
	return true
}

func queueOf(op rdmap.Opcode) uint32 {
	switch op {
	case rdmap.ReadRequest:
		return ddp.QueueReadRequest
	case rdmap.Terminate:
		return ddp.QueueTerminate
	}
	return ddp.QueueSend
}

// placeWrite copies a segment of an RDMA Write into memory, completely or not at all.
func (r *receiver) placeWrite(s *segment) bool {
	if len(s.payload) == 0 {
		// Nothing is accessed, so any STag is accepted.
		return true
	}
	reg, v := r.q.dev.Tags.Reach(&r.q.QP, verbs.AccessRemoteWrite, s.STag, s.TO, len(s.payload))
	if v != driver.Allowed {
		return r.refuse(writeFaults[v], s)
	}
	copy(reg.At(s.TO, len(s.payload)), s.payload)
	reg.Unpin()
	return true
}

// placeSend copies a segment of a Send into the oldest Receive.
func (r *receiver) placeSend(s *segment) bool {
	switch {
	case s.MSN != r.sendMSN:
		return r.refuse(rdmap.UntaggedMSNRange, s)
	case s.MO != uint32(r.got):
		return r.refuse(rdmap.UntaggedInvalidMO, s)
	case r.inSend && s.op != r.op:
		return r.refuse(rdmap.UnexpectedOpcode, s)
	case !r.inSend:
		r.entry, r.pieces = r.q.rq.front()
		if r.entry == nil {
			return r.refuse(rdmap.UntaggedNoBuffer, s)
		}
		r.inSend, r.op = true, s.op
	}
	if len(s.payload) > r.entry.capacity-r.got {
		r.tooLong = true
		return r.refuse(rdmap.UntaggedTooLong, s)
	}
	r.scatter(s.payload)
	if !s.Last {
		return true
	}
	return r.completeSend(s)
}

// scatter copies p into the Receive's next bytes.
func (r *receiver) scatter(p []byte) {
	r.got += len(p)
	for len(p) > 0 {
		dst := r.pieces[r.piece].b
		n := copy(dst[r.pieceOff:], p)
		p = p[n:]
		r.pieceOff += n
		if r.pieceOff == len(dst) {
			r.piece++
			r.pieceOff = 0
		}
	}
}

// completeSend completes the Receive of a whole message. It first revokes the window that
// the message invalidates.
func (r *receiver) completeSend(s *segment) bool {
	wc := verbs.WC{ID: r.entry.id, Op: verbs.WCRecv, QPNum: r.q.Num(), ByteLen: r.got}
	if s.op.Invalidates() {
		if !r.q.dev.Tags.Invalidate(&r.q.QP, s.ULP2) {
			return r.refuse(rdmap.STagNotInvalidatable, s)
		}
		wc.Invalidated, wc.WithInvalidate = s.ULP2, true
	}
	r.sendMSN++
	r.inSend, r.entry, r.pieces = false, nil, nil
	r.got, r.piece, r.pieceOff = 0, 0, 0
	r.q.rq.pop()
	if r.q.recvCQ.PushQuietly(&wc) {
		r.wakeRecv = true
	}
	return true
}

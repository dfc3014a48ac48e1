package softiwarp

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
)

// Reasons for refusing a request; made once, because posting is a hot path
// even when it fails.
var (
	errTooManySGE   = invalid("too many scatter/gather entries")
	errForeignMR    = invalid("memory region of another domain or device")
	errSGEBounds    = invalid("scatter/gather entry out of its region")
	errSGEAccess    = invalid("sink region without local write access")
	errClosedMR     = invalid("memory region closed")
	errTooLong      = invalid("message too long")
	errOpcode       = invalid("unknown opcode")
	errFlags        = invalid("unknown flags")
	errReadSGE      = invalid("an RDMA Read has exactly one scatter/gather entry")
	errNoReads      = invalid("no RDMA Reads were negotiated")
	errForeignMW    = invalid("memory window of another domain or device")
	errBindBounds   = invalid("bind out of the region")
	errBindAccess   = invalid("bind with rights that the region lacks")
	errClosedMW     = invalid("memory window or region closed")
	errQPAttr       = invalid("queue pair attribute out of range")
	errForeignCQ    = invalid("completion queue of another device")
	errCQOverflow   = errors.New("completion queue overflow")
	errFailed       = errors.New("failed by the consumer")
	errMidFPDU      = errors.New("connection ended within an FPDU")
	errNoConnection = errors.New("never connected")
)

func invalid(what string) error {
	return fmt.Errorf("%s: %w", what, verbs.ErrInvalid)
}

// takePieces checks a scatter/gather list, counts the use of its regions and
// puts the memory it names into *dst, which is empty and has room; it
// returns the bytes in all. On an error nothing is left counted.
func (q *queuePair) takePieces(dst *[]piece, sgl []verbs.SGE, need verbs.Access) (int, error) {
	total := 0
	for i := range sgl {
		p, err := q.takePiece(&sgl[i], need)
		if err == nil && total+len(p.b) > maxMsgSize {
			p.mr.unuse()
			err = errTooLong
		}
		if err != nil {
			releasePieces(dst)
			return 0, err
		}
		*dst = append(*dst, p)
		total += len(p.b)
	}
	return total, nil
}

func (q *queuePair) takePiece(sge *verbs.SGE, need verbs.Access) (piece, error) {
	mr, ok := sge.MR.(*memRegion)
	switch {
	case !ok || mr.pd != q.pd:
		return piece{}, errForeignMR
	case sge.Offset < 0 || sge.Length < 0 || sge.Offset > len(mr.buf) || sge.Length > len(mr.buf)-sge.Offset:
		return piece{}, errSGEBounds
	case mr.access&need != need:
		return piece{}, errSGEAccess
	case !mr.use():
		return piece{}, errClosedMR
	}
	return piece{b: mr.buf[sge.Offset : sge.Offset+sge.Length], mr: mr}, nil
}

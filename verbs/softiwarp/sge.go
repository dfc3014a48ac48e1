package softiwarp

import (
	"errors"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

var (
	errFlags   = driver.Invalid("unknown flags")
	errNoReads = driver.Invalid("no RDMA Reads were negotiated")
	errMidFPDU = errors.New("connection ended within an FPDU")
)

// takePieces checks a scatter/gather list, counts the use of its regions and appends its
// memory to *dst, which must be empty and large enough. It returns the total number of
// bytes. On an error no use stays counted.
func (q *queuePair) takePieces(dst *[]piece, sgl []verbs.SGE, need verbs.Access) (int, error) {
	total := 0
	for i := range sgl {
		p, err := q.takePiece(&sgl[i], need)
		if err == nil && total+len(p.b) > maxMsgSize {
			p.mr.Unuse()
			err = driver.ErrTooLong
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
	mr, ok := sge.MR.(*driver.SoftMR)
	if !ok {
		return piece{}, driver.ErrForeignMR
	}
	if err := mr.CheckSGE(&q.pd.PD, sge, need); err != nil {
		return piece{}, err
	}
	if !mr.Use() {
		return piece{}, driver.ErrClosedMR
	}
	return piece{b: mr.Buf[sge.Offset : sge.Offset+sge.Length], mr: mr}, nil
}

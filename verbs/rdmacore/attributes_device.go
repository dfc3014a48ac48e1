//go:build rdmacore && cgo && rdmadevice

package rdmacore

/*
#include "shim.h"

static int attributes(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp, attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER |
		IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC, &init);
}
*/
import "C"

// attributes are those of a device's queue pair, with times as codes. Tests use them,
// because test files cannot use cgo.
type attributes struct{ rnrTimer, ackTimeout, retries, rnrRetries, readsIn, readsOut int }

func (q *queuePair) attributes() (a attributes, err error) {
	var attr C.struct_ibv_qp_attr
	if rc := C.attributes(q.c, &attr); rc != 0 {
		return a, failed("query queue pair", rc)
	}
	return attributes{
		int(attr.min_rnr_timer), int(attr.timeout), int(attr.retry_cnt), int(attr.rnr_retry),
		int(attr.max_dest_rd_atomic), int(attr.max_rd_atomic),
	}, nil
}

//go:build rdmacore && cgo && rdmadevice

package rdmacore

/*
#include "shim.h"

static int timers(struct ibv_qp *qp, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	return ibv_query_qp(qp, attr, IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MIN_RNR_TIMER, &init);
}
*/
import "C"

// timers are what a device was given for a queue pair, as codes: for tests, where
// cgo is not to be had.
type timers struct{ rnrTimer, ackTimeout, retries, rnrRetries int }

func (q *queuePair) timers() (t timers, err error) {
	var attr C.struct_ibv_qp_attr
	if rc := C.timers(q.c, &attr); rc != 0 {
		return t, failed("query queue pair", rc)
	}
	return timers{int(attr.min_rnr_timer), int(attr.timeout), int(attr.retry_cnt), int(attr.rnr_retry)}, nil
}

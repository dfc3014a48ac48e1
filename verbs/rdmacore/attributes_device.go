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

static struct ibv_mw *make_none(struct ibv_pd *pd, enum ibv_mw_type type)
{
	errno = EOPNOTSUPP;
	return NULL;
}

static int query_without_windows(struct ibv_context *ctx, struct rdmad_device *d)
{
	struct ibv_mw *(*own)(struct ibv_pd *, enum ibv_mw_type) = ctx->ops.alloc_mw;
	int err;

	ctx->ops.alloc_mw = make_none;
	err = rdmad_query(ctx, d);
	ctx->ops.alloc_mw = own;
	return err;
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

// windows reports whether a device has memory windows, and whether it would with a driver of
// libibverbs that makes none.
func (o *openContext) windows() (has, without bool, err error) {
	var d C.struct_rdmad_device
	rc := C.int(0)
	atHome(func() { rc = C.query_without_windows(o.c, &d) })
	return o.info.mw2b != 0, d.mw2b != 0, failed("query device", rc)
}

// holdCalls holds calls of rdma_connect until gate is closed. It sends to held when one comes, and
// to over when it has returned.
func holdCalls(gate <-chan struct{}, held, over chan<- struct{}) (release func()) {
	before := dial
	dial = func(f func() C.int) C.int {
		held <- struct{}{}
		<-gate
		rc := before(f)
		over <- struct{}{}
		return rc
	}
	return func() { dial = before }
}

//go:build rdmacore && cgo

#define _GNU_SOURCE
#include "shim.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

// The largest number of requests in one list for libibverbs.
#define BATCH 32

static const enum ibv_wr_opcode opcodes[] = {
	[RDMAD_SEND] = IBV_WR_SEND,
	[RDMAD_SEND_INV] = IBV_WR_SEND_WITH_INV,
	[RDMAD_WRITE] = IBV_WR_RDMA_WRITE,
	[RDMAD_READ] = IBV_WR_RDMA_READ,
	[RDMAD_LOCAL_INV] = IBV_WR_LOCAL_INV,
	[RDMAD_BIND_MW] = IBV_WR_BIND_MW,
};

// errno_of converts a return value of libibverbs (errno, -errno or -1) to an errno.
static int errno_of(int rc)
{
	if (rc == -1 && errno)
		return errno;
	return rc < 0 ? -rc : rc;
}

static uint64_t posted(uint32_t n, int err) { return (uint64_t)(uint32_t)err << 32 | n; }

static void send_wr(struct ibv_send_wr *wr, const struct rdmad_send *s, struct ibv_sge *sges)
{
	memset(wr, 0, sizeof(*wr));
	wr->wr_id = s->wr_id;
	wr->sg_list = sges + s->first_sge;
	wr->num_sge = s->num_sge;
	wr->opcode = opcodes[s->op];
	wr->send_flags = s->flags;
	switch (s->op) {
	case RDMAD_SEND_INV:
		// libsiw reads the key from the field that a Write uses.
		wr->wr.rdma.rkey = s->rkey;
		wr->invalidate_rkey = s->rkey;
		break;
	case RDMAD_LOCAL_INV:
		wr->invalidate_rkey = s->rkey;
		break;
	case RDMAD_BIND_MW:
		wr->bind_mw.mw = (struct ibv_mw *)s->bind_mw;
		wr->bind_mw.rkey = s->bind_rkey;
		wr->bind_mw.bind_info.mr = (struct ibv_mr *)s->bind_mr;
		wr->bind_mw.bind_info.addr = s->bind_addr;
		wr->bind_mw.bind_info.length = s->bind_length;
		wr->bind_mw.bind_info.mw_access_flags = s->bind_access;
		break;
	default:
		wr->wr.rdma.remote_addr = s->remote_addr;
		wr->wr.rdma.rkey = s->rkey;
	}
}

uint64_t rdmad_post_send(struct ibv_qp *qp, const struct rdmad_send *list, uint32_t n, struct ibv_sge *sges, int ring)
{
	struct ibv_send_wr wrs[BATCH], *bad;
	uint32_t done = 0;

	// A valid command is longer: a thread that may give commands gets EINVAL.
	if (ring && write(qp->context->cmd_fd, "", 1) < 0 && errno == EACCES)
		return posted(0, EACCES);

	while (done < n) {
		uint32_t k, count = 0;

		// A bind ends a list: the next bind of the same window needs the new key.
		for (k = done; k < n && count < BATCH && (!count || list[k - 1].op != RDMAD_BIND_MW); k++)
			send_wr(&wrs[count++], &list[k], sges);
		for (k = 0; k + 1 < count; k++)
			wrs[k].next = &wrs[k + 1];
		bad = NULL;
		int err = ibv_post_send(qp, wrs, &bad);
		if (!err && wrs[count - 1].opcode == IBV_WR_BIND_MW)
			wrs[count - 1].bind_mw.mw->rkey = wrs[count - 1].bind_mw.rkey;
		if (err) // some drivers leave bad_wr alone: then none counts as taken
			return posted(done + (bad >= wrs && bad < wrs + count ? bad - wrs : 0), errno_of(err));
		done += count;
	}
	return posted(done, 0);
}

uint64_t rdmad_post_recv(struct ibv_qp *qp, const struct rdmad_recv *list, uint32_t n, struct ibv_sge *sges)
{
	struct ibv_recv_wr wrs[BATCH], *bad;
	uint32_t done = 0;

	while (done < n) {
		uint32_t k, count = n - done < BATCH ? n - done : BATCH;

		for (k = 0; k < count; k++) {
			wrs[k].wr_id = list[done + k].wr_id;
			wrs[k].sg_list = sges + list[done + k].first_sge;
			wrs[k].num_sge = list[done + k].num_sge;
			wrs[k].next = k + 1 < count ? &wrs[k + 1] : NULL;
		}
		bad = NULL;
		int err = ibv_post_recv(qp, wrs, &bad);
		if (err)
			return posted(done + (bad >= wrs && bad < wrs + count ? bad - wrs : 0), errno_of(err));
		done += count;
	}
	return posted(done, 0);
}

int rdmad_poll(struct ibv_cq *cq, struct rdmad_wc *out, int n, int arm, unsigned int inv_flag)
{
	struct ibv_wc wc[BATCH];
	int k, got;

	if (arm) {
		int err = ibv_req_notify_cq(cq, 0);
		if (err)
			return -errno_of(err);
	}
	got = ibv_poll_cq(cq, n < BATCH ? n : BATCH, wc);
	for (k = 0; k < got; k++) {
		out[k].wr_id = wc[k].wr_id;
		out[k].status = wc[k].status;
		out[k].byte_len = wc[k].byte_len;
		out[k].with_inv = wc[k].status == IBV_WC_SUCCESS && (wc[k].wc_flags & inv_flag);
		out[k].invalidated = wc[k].invalidated_rkey;
	}
	return got < 0 ? -EIO : got;
}

int rdmad_event(struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq;
	void *context;

	if (ibv_get_cq_event(channel, &cq, &context))
		return 0;
	ibv_ack_cq_events(cq, 1);
	return 1;
}

int rdmad_nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? errno : 0;
}

// query_port returns the first active port, or the first port if none is active.
static int query_port(struct ibv_context *ctx, int ports, struct ibv_port_attr *port)
{
	int n, err = ibv_query_port(ctx, 1, port);

	for (n = 2; !err && port->state != IBV_PORT_ACTIVE && n <= ports; n++) {
		struct ibv_port_attr other;

		if (!ibv_query_port(ctx, n, &other) && other.state == IBV_PORT_ACTIVE)
			*port = other;
	}
	return err;
}

// makes_windows reports whether libibverbs' driver can make windows. The kernel's driver for
// bnxt_re announces them, and that of libibverbs has none.
static int makes_windows(struct ibv_context *ctx)
{
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_mw *mw;
	int err;

	if (!pd)
		return 1; // nothing is known to be missing
	errno = 0;
	mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	err = errno;
	if (mw)
		ibv_dealloc_mw(mw);
	ibv_dealloc_pd(pd);
	return mw || err != EOPNOTSUPP;
}

int rdmad_query(struct ibv_context *ctx, struct rdmad_device *d)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;
	int err;

	memset(d, 0, sizeof(*d));
	snprintf(d->name, sizeof(d->name), "%s", ibv_get_device_name(ctx->device));
	if ((err = ibv_query_device(ctx, &attr)) || (err = query_port(ctx, attr.phys_port_cnt, &port)))
		return errno_of(err);
	d->vendor = attr.vendor_id;
	d->max_qp_wr = attr.max_qp_wr;
	d->max_sge = attr.max_sge;
	d->max_cqe = attr.max_cqe;
	d->max_mr = attr.max_mr_size;
	d->max_rd_atom = attr.max_qp_rd_atom;
	d->max_init_rd_atom = attr.max_qp_init_rd_atom;
	d->iwarp = ctx->device->transport_type == IBV_TRANSPORT_IWARP;
	d->mw2b = (attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B) && makes_windows(ctx);
	d->send_inv = !!(attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS);
	d->state = port.state;
	d->max_msg = port.max_msg_sz;
	return 0;
}

static int limits_of(struct ibv_device *device, struct rdmad_device *d, struct rdmad_limits *l)
{
	struct ibv_context *ctx = ibv_open_device(device);
	struct ibv_device_attr attr;
	int err;

	if (!ctx)
		return errno ? errno : ENODEV;
	err = rdmad_query(ctx, d);
	if (!err && !(err = errno_of(ibv_query_device(ctx, &attr)))) {
		l->max_qp = attr.max_qp;
		l->max_cq = attr.max_cq;
		l->max_mr = attr.max_mr;
		l->max_mw = attr.max_mw;
		l->max_pd = attr.max_pd;
		l->max_srq = attr.max_srq;
	}
	ibv_close_device(ctx);
	return err;
}

// rdmad_limits reads a device's limits without librdmacm, which would keep the device open.
int rdmad_limits(const char *name, struct rdmad_device *d, struct rdmad_limits *l)
{
	int n, k, err = ENODEV;
	struct ibv_device **list;

	errno = 0;
	list = ibv_get_device_list(&n);
	if (!list)
		return errno ? errno : ENOSYS;
	for (k = 0; k < n; k++)
		if (!strcmp(ibv_get_device_name(list[k]), name))
			err = limits_of(list[k], d, l);
	ibv_free_device_list(list);
	return err;
}

int rdmad_create_cq(struct ibv_context *ctx, int depth, uint64_t handle, struct ibv_comp_channel **channel, struct ibv_cq **cq)
{
	static unsigned int made;
	// Use the interrupts in turn, as ib_alloc_cq_any does.
	int err, vectors = ctx->num_comp_vectors > 0 ? ctx->num_comp_vectors : 1;
	int vector = __atomic_fetch_add(&made, 1, __ATOMIC_RELAXED) % vectors;

	*channel = ibv_create_comp_channel(ctx);
	if (!*channel)
		return errno ? errno : ENOMEM;
	err = rdmad_nonblock((*channel)->fd);
	if (!err) {
		errno = 0;
		*cq = ibv_create_cq(ctx, depth, (void *)(uintptr_t)handle, *channel, vector);
		if (*cq)
			return 0;
		err = errno ? errno : ENOMEM;
	}
	ibv_destroy_comp_channel(*channel);
	return err;
}

int rdmad_destroy_cq(struct ibv_comp_channel *channel, struct ibv_cq *cq)
{
	int err;

	while (rdmad_event(channel)) // what was not acknowledged would be waited for
		;
	err = ibv_destroy_cq(cq);
	if (!err)
		err = ibv_destroy_comp_channel(channel);
	return errno_of(err);
}

int rdmad_create_qp(struct ibv_pd *pd, struct ibv_cq *scq, struct ibv_cq *rcq, uint64_t handle,
	uint32_t sends, uint32_t recvs, uint32_t send_sge, uint32_t recv_sge, uint32_t *inline_data, struct ibv_qp **qp)
{
	struct ibv_qp_init_attr attr = {
		.qp_context = (void *)(uintptr_t)handle,
		.send_cq = scq,
		.recv_cq = rcq,
		.cap = {.max_send_wr = sends, .max_recv_wr = recvs, .max_send_sge = send_sge, .max_recv_sge = recv_sge, .max_inline_data = *inline_data},
		.qp_type = IBV_QPT_RC,
	};

	errno = 0;
	*qp = ibv_create_qp(pd, &attr);
	if (!*qp)
		return errno ? errno : ENOMEM;
	*inline_data = attr.cap.max_inline_data;
	return 0;
}

// move moves a queue pair to a state. The attributes come from the connection manager, but
// the values of p replace those that the peer asked for: the peer may ask for more RDMA Reads
// than the device takes, and each side chooses its own retries.
static int move(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state, const struct rdmad_param *p)
{
	struct ibv_qp_attr attr = {.qp_state = state};
	int mask;

	if (rdma_init_qp_attr(id, &attr, &mask))
		return errno;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		attr.min_rnr_timer = p->min_rnr_timer;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		attr.max_dest_rd_atomic = p->responder_resources;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		attr.max_rd_atomic = p->initiator_depth;
	if (mask & IBV_QP_RETRY_CNT)
		attr.retry_cnt = p->retry_count;
	if (mask & IBV_QP_RNR_RETRY)
		attr.rnr_retry = p->rnr_retry_count;
	if ((mask & IBV_QP_TIMEOUT) && p->ack_timeout)
		attr.timeout = p->ack_timeout;
	return errno_of(ibv_modify_qp(qp, &attr, mask));
}

int rdmad_qp_init(struct rdma_cm_id *id, struct ibv_qp *qp)
{
	static const struct rdmad_param none;

	return move(id, qp, IBV_QPS_INIT, &none);
}

int rdmad_qp_connect(struct rdma_cm_id *id, struct ibv_qp *qp, const struct rdmad_param *p)
{
	int err;

	// Repeat INIT: the access rights depend on the negotiated parameters.
	if ((err = move(id, qp, IBV_QPS_INIT, p)) || (err = move(id, qp, IBV_QPS_RTR, p)))
		return err;
	return move(id, qp, IBV_QPS_RTS, p);
}

int rdmad_qp_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	return errno_of(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
}

int rdmad_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access, struct ibv_mr **mr)
{
	errno = 0;
	*mr = ibv_reg_mr(pd, addr, length, access);
	return *mr ? 0 : errno ? errno : ENOMEM;
}

int rdmad_alloc_mw(struct ibv_pd *pd, struct ibv_mw **mw)
{
	errno = 0;
	*mw = ibv_alloc_mw(pd, IBV_MW_TYPE_2);
	return *mw ? 0 : errno ? errno : ENOMEM;
}

// nothing is /dev/null, opened early, while a file can still be opened.
static int nothing = -1;

__attribute__((constructor)) static void open_nothing(void) { nothing = open("/dev/null", O_RDWR | O_CLOEXEC); }

// rdmad_abandon releases a device that is gone to the kernel. librdmacm keeps the context of
// its last device open, and the kernel waits for that.
void rdmad_abandon(struct ibv_context *ctx)
{
	dup3(nothing, ctx->cmd_fd, O_CLOEXEC);
	dup3(nothing, ctx->async_fd, O_CLOEXEC);
}

int rdmad_async(struct ibv_context *ctx, int *kind, uint64_t *handle, int *port)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(ctx, &event))
		return errno ? errno : EIO;
	*kind = event.event_type;
	*handle = 0;
	*port = 0;
	switch (event.event_type) {
	case IBV_EVENT_CQ_ERR:
		*handle = (uint64_t)(uintptr_t)event.element.cq->cq_context;
		break;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
		*handle = (uint64_t)(uintptr_t)event.element.qp->qp_context;
		break;
	case IBV_EVENT_PORT_ACTIVE:
	case IBV_EVENT_PORT_ERR:
		*port = event.element.port_num;
		break;
	default:
		break;
	}
	ibv_ack_async_event(&event);
	return 0;
}

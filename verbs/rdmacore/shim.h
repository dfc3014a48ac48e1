// The calls of libibverbs and librdmacm that package rdmacore makes, flattened: no structure
// here holds a pointer into Go memory, and handles are integers.
#ifndef RDMAD_SHIM_H
#define RDMAD_SHIM_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>

// Operations of struct rdmad_send, in the order of verbs.Opcode.
enum { RDMAD_SEND, RDMAD_SEND_INV, RDMAD_WRITE, RDMAD_READ, RDMAD_LOCAL_INV, RDMAD_BIND_MW };

// rdmad_send is one work request of a send queue. Its scatter/gather entries are num_sge of
// the list passed with it, from first_sge on.
struct rdmad_send {
	uint64_t wr_id, remote_addr;
	uint32_t rkey; // of the peer; for LOCAL_INV and SEND_INV the key to invalidate
	uint32_t op, flags;
	uint32_t first_sge, num_sge;
	uint32_t bind_rkey, bind_access;
	uintptr_t bind_mw, bind_mr;
	uint64_t bind_addr, bind_length;
};

struct rdmad_recv {
	uint64_t wr_id;
	uint32_t first_sge, num_sge;
};

struct rdmad_wc {
	uint64_t wr_id;
	uint32_t status, byte_len, with_inv, invalidated;
};

// rdmad_address is an IP address (IPv4 mapped into IPv6) and port.
struct rdmad_address {
	uint8_t ip[16];
	uint32_t scope;
	uint16_t port;
	uint8_t v4;
};

struct rdmad_event {
	uint64_t handle; // of the identifier, or of the listener for a request
	uintptr_t id, device; // device: its struct ibv_context, 0 when there is none
	int32_t kind, status;
	uint8_t responder_resources, initiator_depth, private_len;
	uint8_t private_data[256];
};

// rdmad_param holds the parameters sent to the peer. Only the queue pair uses min_rnr_timer
// and ack_timeout (0: the connection manager's).
struct rdmad_param {
	uint32_t qp_num;
	uint8_t responder_resources, initiator_depth, retry_count, rnr_retry_count, private_len;
	uint8_t min_rnr_timer, ack_timeout;
	uint8_t private_data[256];
};

struct rdmad_device {
	char name[64];
	uint32_t vendor, max_qp_wr, max_sge, max_cqe, max_rd_atom, max_init_rd_atom;
	uint32_t iwarp, mw2b, send_inv, state, max_msg;
	uint64_t max_mr;
};

struct rdmad_limits {
	uint32_t max_qp, max_cq, max_mr, max_mw, max_pd, max_srq;
};

// Posting returns the number of requests taken in the lower half, and an errno in the upper.
// With ring set, posting needs a command to the device, as on siw and rxe. If this thread may
// give no commands, it returns EACCES before anything was done.
uint64_t rdmad_post_send(struct ibv_qp *qp, const struct rdmad_send *list, uint32_t n, struct ibv_sge *sges, int ring);
uint64_t rdmad_post_recv(struct ibv_qp *qp, const struct rdmad_recv *list, uint32_t n, struct ibv_sge *sges);

// Polling returns the number of completions, or -errno. arm first requests an event.
// inv_flag is the flag in wc_flags by which the device reports an invalidation.
int rdmad_poll(struct ibv_cq *cq, struct rdmad_wc *wc, int n, int arm, unsigned int inv_flag);
// rdmad_event takes and acknowledges an event of a channel. It returns 0 when there is none.
int rdmad_event(struct ibv_comp_channel *channel);

// All others return 0 or an errno.
int rdmad_nonblock(int fd);
int rdmad_query(struct ibv_context *ctx, struct rdmad_device *d);
int rdmad_limits(const char *name, struct rdmad_device *d, struct rdmad_limits *l);
int rdmad_create_cq(struct ibv_context *ctx, int depth, uint64_t handle, struct ibv_comp_channel **channel, struct ibv_cq **cq);
int rdmad_destroy_cq(struct ibv_comp_channel *channel, struct ibv_cq *cq);
int rdmad_create_qp(struct ibv_pd *pd, struct ibv_cq *scq, struct ibv_cq *rcq, uint64_t handle,
	uint32_t sends, uint32_t recvs, uint32_t send_sge, uint32_t recv_sge, uint32_t *inline_data, struct ibv_qp **qp);
int rdmad_qp_init(struct rdma_cm_id *id, struct ibv_qp *qp);
int rdmad_qp_connect(struct rdma_cm_id *id, struct ibv_qp *qp, const struct rdmad_param *p);
int rdmad_qp_error(struct ibv_qp *qp);
int rdmad_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access, struct ibv_mr **mr);
int rdmad_alloc_mw(struct ibv_pd *pd, struct ibv_mw **mw);
void rdmad_abandon(struct ibv_context *ctx);
int rdmad_async(struct ibv_context *ctx, int *kind, uint64_t *handle, int *port);

int rdmad_put_devices(struct ibv_context **list, int n);
int rdmad_create_channel(struct rdma_event_channel **channel);
int rdmad_create_id(struct rdma_event_channel *channel, uint64_t handle, struct rdma_cm_id **id);
void rdmad_set_handle(struct rdma_cm_id *id, uint64_t handle);
int rdmad_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *to);
int rdmad_listen(struct rdma_cm_id *id, const struct rdmad_address *at, int backlog);
int rdmad_resolve_addr(struct rdma_cm_id *id, const struct rdmad_address *to, int ms);
int rdmad_resolve_route(struct rdma_cm_id *id, int ms);
// rdmad_connect sets thread while it waits. rdmad_interrupt then makes it return EINTR, unless
// its wait has not begun yet.
int rdmad_connect(struct rdma_cm_id *id, const struct rdmad_param *p, int *thread);
void rdmad_interrupt(int *thread);
int rdmad_accept(struct rdma_cm_id *id, const struct rdmad_param *p);
int rdmad_establish(struct rdma_cm_id *id);
int rdmad_confirm(struct rdma_cm_id *id);
int rdmad_reject(struct rdma_cm_id *id, const uint8_t *data, uint8_t n);
int rdmad_disconnect(struct rdma_cm_id *id);
int rdmad_destroy_id(struct rdma_cm_id *id);
int rdmad_next_event(struct rdma_event_channel *channel, struct rdmad_event *e);
void rdmad_local_address(struct rdma_cm_id *id, struct rdmad_address *a);
void rdmad_peer_address(struct rdma_cm_id *id, struct rdmad_address *a);

#endif

//go:build rdmacore && cgo

#define _GNU_SOURCE
#include "shim.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

// With this variable, libibverbs frees the objects of a device that is gone. Without it,
// libibverbs keeps its part of them, with files and mapped memory. It reads it once.
__attribute__((constructor)) static void free_what_is_gone(void) { setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 0); }

static int result(int rc) { return rc ? (errno ? errno : EIO) : 0; }

static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};

static void to_sockaddr(const struct rdmad_address *a, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof(*out));
	if (a->v4) {
		struct sockaddr_in *in = (struct sockaddr_in *)out;

		in->sin_family = AF_INET;
		in->sin_port = htons(a->port);
		memcpy(&in->sin_addr, a->ip + 12, 4);
	} else {
		struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;

		in->sin6_family = AF_INET6;
		in->sin6_port = htons(a->port);
		in->sin6_scope_id = a->scope;
		memcpy(&in->sin6_addr, a->ip, 16);
	}
}

static void from_sockaddr(const struct sockaddr *sa, struct rdmad_address *a)
{
	memset(a, 0, sizeof(*a));
	if (sa->sa_family == AF_INET) {
		const struct sockaddr_in *in = (const struct sockaddr_in *)sa;

		a->v4 = 1;
		a->port = ntohs(in->sin_port);
		memcpy(a->ip, mapped, 12);
		memcpy(a->ip + 12, &in->sin_addr, 4);
	} else if (sa->sa_family == AF_INET6) {
		const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)sa;

		a->port = ntohs(in->sin6_port);
		a->scope = in->sin6_scope_id;
		memcpy(a->ip, &in->sin6_addr, 16);
	}
}

// rdmad_put_devices returns references that rdma_get_devices has taken.
int rdmad_put_devices(struct ibv_context **list, int n)
{
	struct ibv_context **copy = calloc(n + 1, sizeof(*copy));

	if (!copy)
		return ENOMEM;
	memcpy(copy, list, n * sizeof(*copy));
	rdma_free_devices(copy); // frees the list, too
	return 0;
}

int rdmad_create_channel(struct rdma_event_channel **channel)
{
	int err;

	errno = 0;
	*channel = rdma_create_event_channel();
	if (!*channel)
		return errno ? errno : ENODEV;
	err = rdmad_nonblock((*channel)->fd);
	if (err)
		rdma_destroy_event_channel(*channel);
	return err;
}

int rdmad_create_id(struct rdma_event_channel *channel, uint64_t handle, struct rdma_cm_id **id)
{
	return result(rdma_create_id(channel, id, (void *)(uintptr_t)handle, RDMA_PS_TCP));
}

void rdmad_set_handle(struct rdma_cm_id *id, uint64_t handle) { id->context = (void *)(uintptr_t)handle; }

int rdmad_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *to) { return result(rdma_migrate_id(id, to)); }

int rdmad_listen(struct rdma_cm_id *id, const struct rdmad_address *at, int backlog)
{
	struct sockaddr_storage sa;
	int reuse = 1;

	to_sockaddr(at, &sa);
	(void)rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof(reuse));
	if (rdma_bind_addr(id, (struct sockaddr *)&sa))
		return result(-1);
	return result(rdma_listen(id, backlog));
}

int rdmad_resolve_addr(struct rdma_cm_id *id, const struct rdmad_address *to, int ms)
{
	struct sockaddr_storage sa;

	to_sockaddr(to, &sa);
	return result(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sa, ms));
}

int rdmad_resolve_route(struct rdma_cm_id *id, int ms) { return result(rdma_resolve_route(id, ms)); }

static void conn_param(const struct rdmad_param *p, struct rdma_conn_param *out)
{
	memset(out, 0, sizeof(*out));
	out->private_data = p->private_data;
	out->private_data_len = p->private_len;
	out->responder_resources = p->responder_resources;
	out->initiator_depth = p->initiator_depth;
	out->flow_control = 1;
	out->retry_count = p->retry_count;
	out->rnr_retry_count = p->rnr_retry_count;
	out->qp_num = p->qp_num;
}

// interrupting is the signal by which rdmad_interrupt ends an attempt to connect. Nothing else
// uses it.
#define interrupting (SIGRTMAX - 1)

static void interrupted(int sig) { (void)sig; }

static void handle_interrupting(void)
{
	struct sigaction act = {.sa_handler = interrupted, .sa_flags = SA_ONSTACK}; // not SA_RESTART: the call returns EINTR

	sigaction(interrupting, &act, NULL);
}

static pthread_mutex_t attempts = PTHREAD_MUTEX_INITIALIZER;

static void set_thread(int *thread, int id)
{
	pthread_mutex_lock(&attempts);
	*thread = id;
	pthread_mutex_unlock(&attempts);
}

// rdma_connect of siw waits for its TCP connection. A signal, such as one by which Go
// preempts goroutines, makes the kernel end that connection and make another from the same
// port, which fails. Worse, siw takes the early end for that of the listener (socket.go).
// So all signals wait, except that of rdmad_interrupt.
int rdmad_connect(struct rdma_cm_id *id, const struct rdmad_param *p, int *thread)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct rdma_conn_param param;
	sigset_t others, before;
	int rc;

	pthread_once(&once, handle_interrupting);
	conn_param(p, &param);
	sigfillset(&others);
	sigdelset(&others, interrupting);
	pthread_sigmask(SIG_BLOCK, &others, &before);
	set_thread(thread, syscall(SYS_gettid));
	rc = result(rdma_connect(id, &param));
	set_thread(thread, 0);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return rc;
}

void rdmad_interrupt(int *thread)
{
	pthread_mutex_lock(&attempts);
	if (*thread)
		syscall(SYS_tgkill, getpid(), *thread, interrupting);
	pthread_mutex_unlock(&attempts);
}

int rdmad_accept(struct rdma_cm_id *id, const struct rdmad_param *p)
{
	struct rdma_conn_param param;

	conn_param(p, &param);
	return result(rdma_accept(id, &param));
}

int rdmad_establish(struct rdma_cm_id *id) { return result(rdma_establish(id)); }

int rdmad_confirm(struct rdma_cm_id *id) { return result(rdma_notify(id, IBV_EVENT_COMM_EST)); }

int rdmad_reject(struct rdma_cm_id *id, const uint8_t *data, uint8_t n) { return result(rdma_reject(id, data, n)); }

int rdmad_disconnect(struct rdma_cm_id *id) { return result(rdma_disconnect(id)); }

int rdmad_destroy_id(struct rdma_cm_id *id) { return result(rdma_destroy_id(id)); }

int rdmad_next_event(struct rdma_event_channel *channel, struct rdmad_event *e)
{
	struct rdma_cm_event *event;

	if (rdma_get_cm_event(channel, &event))
		return result(-1);
	memset(e, 0, sizeof(*e));
	e->handle = (uint64_t)(uintptr_t)event->id->context;
	e->id = (uintptr_t)event->id;
	e->device = (uintptr_t)event->id->verbs;
	e->kind = event->event;
	e->status = event->status;
	switch (event->event) {
	case RDMA_CM_EVENT_CONNECT_REQUEST:
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_REJECTED:
		e->responder_resources = event->param.conn.responder_resources;
		e->initiator_depth = event->param.conn.initiator_depth;
		if (event->param.conn.private_data) {
			e->private_len = event->param.conn.private_data_len;
			memcpy(e->private_data, event->param.conn.private_data, e->private_len);
		}
		break;
	default:
		break;
	}
	return result(rdma_ack_cm_event(event));
}

void rdmad_local_address(struct rdma_cm_id *id, struct rdmad_address *a) { from_sockaddr(rdma_get_local_addr(id), a); }

void rdmad_peer_address(struct rdma_cm_id *id, struct rdmad_address *a) { from_sockaddr(rdma_get_peer_addr(id), a); }

// Package rdmacore is the verbs and connection manager of rdma-core:
// libibverbs and librdmacm through cgo, for every adapter that they support
// (InfiniBand, RoCE, iWARP) and the kernel's software adapters siw and rxe. It
// is built with the tag rdmacore only, and is the one package that uses cgo.
//
// A C shim posts a list of work requests, and polls a batch of completions, per
// call. Memory is the caller's: a region pins it (runtime.Pinner) until it is
// closed, so memory of the Go heap may be registered; work requests name
// memory by address, never by Go pointer.
//
// Nothing calls ibv_fork_init: programs that Go starts share its memory until they
// are executed (CLONE_VFORK), so that no registered page is copied, and all files are
// closed on execution.
//
// Each provider has one goroutine for the events of the connection manager, one that
// sweeps, and one for the completion channels of idle queues (ReqNotify); each listener
// has one that looks after its health, each device in use one for asynchronous events,
// and each queue pair one while it drains or ends. On iWARP each queue pair that has
// connected has a timer for a while. A goroutine in Wait waits in the runtime's poller on
// the CQ's own completion channel.
//
// What devices leave open is decided here, so that all providers behave the
// same: a queue pair keeps a ring of what was posted (sendQueue, recvQueue),
// completes requests in order, and flushes what is left when the device's queue
// pair has been destroyed, after which no memory is touched.
//
// Lock order: those of completionQueue and queuePair, sendQueue.mu or recvQueue.mu,
// memWindow.mu, windowSet.mu.
package rdmacore

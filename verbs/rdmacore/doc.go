// Package rdmacore uses the verbs and connection manager of rdma-core: libibverbs and
// librdmacm through cgo, for every adapter that they support (InfiniBand, RoCE, iWARP) and
// the kernel's software adapters siw and rxe. It is built only with the tag rdmacore, and
// is the only package that uses cgo.
//
// A C shim posts a list of work requests, or polls a batch of completions, in one call. The
// caller owns the memory. A region pins it (runtime.Pinner) until the region is closed, so
// memory of the Go heap may be registered. Work requests name memory by address, never by
// Go pointer.
//
// Nothing calls ibv_fork_init. Child processes share the memory of the Go process until
// they execute their program (CLONE_VFORK), so registered pages are never copied. All files
// are closed on execution.
//
// Each provider has one goroutine for connection manager events, one that sweeps, and one
// for the completion channels of idle queues (ReqNotify). Each listener has one for its
// events, such as requests, and one for its health. Each device in use has one for
// asynchronous events. Each queue pair has one while it drains or ends. On iWARP each
// connected queue pair has a timer for a while. A goroutine in Wait waits in the runtime's
// poller on the CQ's own completion channel.
//
// The provider hides differences between devices. A queue pair keeps a ring of posted
// requests (sendQueue, recvQueue), completes requests in order, and flushes the rest after
// the device's queue pair has been destroyed. After that no memory is accessed.
//
// Lock order: those of completionQueue and queuePair, sendQueue.mu or recvQueue.mu,
// memWindow.mu, windowSet.mu.
package rdmacore

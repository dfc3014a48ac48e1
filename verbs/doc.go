// Package verbs is the vocabulary of RDMA verbs that every provider speaks
// and every consumer is written against: devices, protection domains, memory
// regions and windows, completion queues, queue pairs, work requests and
// work completions, with the meanings that libibverbs gives them.
//
// A consumer's duties:
//
//   - memory named by a posted work request belongs to the provider until the
//     request's completion has been polled; the slices of the request itself
//     (the WR array, its SGL) are copied by the post call;
//   - every queue is bounded: never post more requests than MaxSendWR or
//     MaxRecvWR, never let more completions be outstanding than a CQ's depth;
//   - objects are closed in the reverse order of their creation: QP, MW, MR,
//     CQ, PD, Device. Closing an object still in use fails with ErrBusy.
//
// Connections are made by package rdmacm.
package verbs

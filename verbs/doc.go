// Package verbs defines the RDMA verbs that providers implement and consumers use: devices,
// protection domains, memory regions and windows, completion queues, queue pairs, work
// requests and work completions. They have the meaning that libibverbs gives them.
//
// A consumer must:
//
//   - not touch memory named by a posted work request until the request's completion has
//     been polled. The post call copies the slices of the request itself (the WR array and
//     its SGL);
//   - never post more requests than MaxSendWR or MaxRecvWR, and never have more completions
//     outstanding than a CQ's depth;
//   - close objects in the reverse order of their creation: QP, MW, MR, CQ, PD, Device.
//     Closing an object that is still in use fails with ErrBusy.
//
// Package rdmacm makes connections.
package verbs

// Package guest boots Linux kernels under QEMU for tests: a real NFS/RDMA client
// and server and real soft-iWARP verbs, on a machine without RDMA hardware and
// without touching its kernel.
//
// A test calls [Boot] once and runs shell scripts in the guest with
// [Guest.Run] or [Guest.MustRun], several at a time if it likes; subtests share
// the guest. The guest is 10.0.2.15 and reaches what listens on the host's
// 127.0.0.1 as 10.0.2.2. [Guest.HostPort] gives the host's port for a guest's
// TCP port named in [Options]. /host in the guest is the directory
// [Guest.ShareDir] of the host.
//
// The shell is busybox and prefers its own commands to programs of the same
// name: iproute2's tc is /sbin/tc.
//
// The guest ends with the test, or with the test's process. A kernel that
// oopses ends at once; calls under way return [ErrDied], the test fails, and the
// console is in its log.
package guest

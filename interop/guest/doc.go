// Package guest boots Linux kernels under QEMU for tests. A test gets a real
// NFS/RDMA client and server and real soft-iWARP verbs, without RDMA hardware
// and without changes to the machine's kernel.
//
// A test calls [Boot] once and runs shell scripts in the guest with [Guest.Run]
// or [Guest.MustRun], several at a time if needed. Subtests share the guest.
// The guest is 10.0.2.15. It reaches the host's 127.0.0.1 as 10.0.2.2.
// [Guest.HostPort] returns the host's port for a TCP port of the guest that
// [Options] names. /host in the guest is [Guest.ShareDir] on the host.
//
// The shell is busybox. It prefers its own commands to programs of the same
// name: call iproute2's tc as /sbin/tc.
//
// The guest ends with the test, or with the test's process. After an oops the
// guest ends at once: running calls return [ErrDied], the test fails, and its
// log has the console.
package guest

// Package ceph runs nfs-ganesha before a file system of Ceph's, for tests: of
// the back ends that Debian's nfs-ganesha 4.3 has, the one that grants
// delegations and has extended attributes, both. All of it runs on the host, from where the
// packages of interop/deps.sh are unpacked: one monitor, one metadata server, one
// object store in memory, and ganesha, which serves NFSv4.0, 4.1 and 4.2 on a TCP port of 127.0.0.1.
//
// It holds what it is given in memory (256 MiB at most, and everything is gone
// with the test), needs no root, and no process outlives the test.
package ceph

// Package rpcbindtest lets tests use a real rpcbind, Debian's, without
// touching the machine's: neither its port 111 nor its /run.
//
// A test that begins with Isolate is run once more, in a process with a
// network and a /run of its own, where it may Start rpcbind at the usual
// places, end it and start it again. rpcbind is the installed one or, as its
// package would start it on the machine at once, the one among the packages
// that interop/deps.sh downloads for the kernel guest, unpacked for the test
// into a root of its own.
//
// Namespaces, and rpcbind itself, which gives up root's groups, need root. A
// test without root or without rpcbind is skipped, and fails where CI is set.
package rpcbindtest

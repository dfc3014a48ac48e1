// Package rpcbindtest lets tests use a real rpcbind, Debian's, without touching the machine's
// port 111 or its /run.
//
// A test that begins with Isolate is run once more, in a process with its own network and /run.
// There it may Start rpcbind at the usual addresses, end it and start it again. It uses the
// installed rpcbind. Without one, since installing it would start it on the machine at once, it
// uses the one among the packages that interop/deps.sh downloads for the kernel guest, unpacked
// into a root in the cache.
//
// Namespaces, and rpcbind itself, which gives up root's groups, need root. A test without root
// or without rpcbind is skipped, or fails where CI is set.
package rpcbindtest

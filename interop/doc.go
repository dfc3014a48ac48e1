// Package interop holds the tests of rdmad against independent peers: the Linux
// kernel's NFS client and its soft-iWARP verbs, in a kernel guest (package
// guest). See README.md for how to run one of them by hand.
package interop

// Package interop tests rdmad against independent peers: the Linux kernel's NFS
// client and its soft-iWARP verbs, in a kernel guest (package guest). README.md
// says how to run one of them by hand.
package interop

// Package offheap allocates memory that the Go runtime does not manage: anonymous mappings,
// which return to the operating system when they are freed. It is for everything large that
// peers make rdmad hold: registered memory, and the records of RPC over TCP. The process
// has one account of it, with a limit. A Part of it can be kept for an owner.
//
// The caller must:
//
//   - Free a Region once, after the last access to its bytes. For registered memory that is
//     when all its registrations have been closed: providers end all access of peers and
//     adapters before Close returns;
//   - keep no slice of a Region after Free. An access after Free ends the process with
//     SIGSEGV;
//   - Close a Part when its owner has ended.
//
// Under the race detector, which sees only accesses to the Go heap, and on systems other
// than Linux the memory comes from the Go heap. The account is the same. Free then
// overwrites some of the memory, so that an access after Free finds other data.
package offheap

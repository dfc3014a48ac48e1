// Package driver is what verbs providers have in common, as libibverbs has it in
// driver.h and verbs_set_ops: it implements the rules of the object model once, and
// a provider embeds its types and adds the rest.
//
// The rules are: an object is not closed while another uses it, and closing it
// twice is closing it once; attributes and arguments are checked against the
// device; a completion queue belongs to its queue pairs and loses their completions
// with them; a queue pair goes through its states in order and fails once; an
// identifier is connected or answered once, and its Close ends a call in progress.
//
// A provider's duties:
//
//   - embed Device, PD, MR, MW, QP and ID, and CQ or CQBase, and initialize each
//     before its first use;
//   - fail a queue pair when Overflow or End is called.
//
// Methods named Locked need the lock of their object. Locks of this package are
// leaves, but for those of CQBase and QP, which a provider may hold.
package driver

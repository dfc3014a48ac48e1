// Package driver is the common part of verbs providers, like driver.h and verbs_set_ops of
// libibverbs. It implements the rules of the object model once. A provider embeds its types
// and adds the rest.
//
// The rules are: an object cannot be closed while another uses it, and closing it twice has
// no effect; attributes and arguments are checked against the device; a completion queue
// loses the completions of a destroyed queue pair; a queue pair goes through its states in
// order and fails once; an identifier is connected or answered once, and its Close ends a
// call in progress.
//
// A provider must:
//
//   - embed Device, PD, MR, MW, QP and ID, and CQ or CQBase, and initialize each before its
//     first use;
//   - fail a queue pair when Overflow or End is called.
//
// SoftDevice has the memory of providers in software: regions and windows that peers name by
// steering tags, with their rights and bounds. Such a provider prepares each posted bind, executes
// or abandons it, and calls UnbindWindows at the end of a queue pair.
//
// Methods whose names end in Locked need the lock of their object. The locks of this
// package are leaves, except those of CQBase and QP: a provider may take other locks
// while it holds them. SoftMW.mu comes before QP.winMu and Tags.mu. It is held while a window is
// revoked, which waits for its pins. A goroutine that has pinned a window takes its lock only to
// abandon a bind of it, as in loopback: Close does not revoke a window while a bind is posted, and
// the lock of the link keeps others from doing so.
package driver

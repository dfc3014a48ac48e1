// Package disk is a disk for virtual machines whose power can fail: it has a
// write cache that is lost unless it was flushed, and tells what would be on it
// had the power failed at any moment of its life.
//
// A machine reaches it by the NBD protocol (fixed newstyle negotiation, simple
// replies), which QEMU speaks. It promises what an adapter with a volatile write
// cache does, and no more: a write is on the medium when a flush that came after
// its reply has been answered, or at once when it asked for that (FUA).
package disk

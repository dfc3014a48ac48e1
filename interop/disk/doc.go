// Package disk is a disk for virtual machines whose power can fail: it has a write
// cache whose contents are lost unless they were flushed. It can show the contents
// of the disk after a power failure at any moment.
//
// A machine reaches it by the NBD protocol (fixed newstyle negotiation, simple
// replies), which QEMU speaks. It gives the guarantees of an adapter with a
// volatile write cache, and no others: a write is on the medium when a flush that
// came after its reply has been answered, or at once when it asked for that (FUA).
package disk

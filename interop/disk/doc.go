// Package disk implements a disk for virtual machines whose power can fail. The
// disk has a write cache. Its contents are lost unless they were flushed. The
// package returns the contents of the disk after a power failure at any moment.
// Writes can also be made to fail.
//
// A machine accesses the disk by the NBD protocol (fixed newstyle negotiation,
// simple replies), which QEMU speaks. The disk gives only the guarantees of a
// volatile write cache: a write is on the medium once a flush sent after its
// reply was answered, or at once if the write asked for it (FUA).
package disk

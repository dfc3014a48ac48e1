package bulk

import "golang.org/x/sys/unix"

// yield lets other threads that wait for this processor go first. The goroutine keeps the
// runtime's processor (its P): without it, it would have to wait in the runtime's queue afterwards.
func yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }

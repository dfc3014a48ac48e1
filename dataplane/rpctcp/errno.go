package rpctcp

import (
	"errors"
	"syscall"
)

// IsReset says whether a connection failed because its peer reset it, or had
// gone when it was written to: what became of what was last sent to it is not
// known, and nobody here has done anything wrong.
func IsReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// resourceShortage reports whether accepting failed for lack of descriptors or
// memory, or because that one peer has gone already.
func resourceShortage(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

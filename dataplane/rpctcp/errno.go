package rpctcp

import (
	"errors"
	"syscall"
)

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

package rpctcp

import (
	"errors"
	"syscall"
)

// IsReset reports whether a connection failed because its peer reset it or was gone. It is
// unknown whether the peer received the last data. This is not an error on our side.
func IsReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// resourceShortage reports whether accepting failed for lack of descriptors or memory, or
// because that one peer has gone already.
func resourceShortage(err error) bool {
	for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, errno) {
			return true
		}
	}
	return false
}

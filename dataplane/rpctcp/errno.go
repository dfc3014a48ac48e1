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

// mayPass reports whether accepting may work again: after a lack of descriptors or memory, a
// refusal by a security module, or an error of the network that belongs to that one peer
// (accept(2)).
func mayPass(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && errno != syscall.EBADF && errno != syscall.EINVAL
}

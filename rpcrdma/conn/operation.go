package conn

import (
	"errors"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// ErrOption means that a message is an optional operation that is unknown, or whose
// extension is off.
var ErrOption = errors.New("conn: unknown or disabled operation")

// operates reports whether a message is an optional operation.
func operates(h *Header, err error) bool {
	return err == nil && h.Proc == rpcrdma2.Optional
}

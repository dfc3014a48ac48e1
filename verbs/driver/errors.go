package driver

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
)

// Reasons for refusing a request. They are allocated once, because posting is a hot path
// even when it fails.
var (
	ErrSGECount   = Invalid("too many scatter/gather entries")
	ErrReadSGE    = Invalid("an RDMA Read has exactly one scatter/gather entry")
	ErrForeignPD  = Invalid("protection domain of another device")
	ErrForeignMR  = Invalid("memory region of another domain or device")
	ErrSGEBounds  = Invalid("scatter/gather entry out of its region")
	ErrSGEAccess  = Invalid("sink region without the rights to be written to")
	ErrClosedMR   = Invalid("memory region closed")
	ErrTooLong    = Invalid("message too long")
	ErrOpcode     = Invalid("unknown opcode")
	ErrForeignMW  = Invalid("memory window of another domain or device")
	ErrBindBounds = Invalid("bind out of the region")
	ErrBindAccess = Invalid("bind with rights that the region lacks, or none")
	ErrClosedMW   = Invalid("memory window or region closed")
)

// Reasons of QP.Err.
var (
	ErrFailed       = errors.New("queue pair failed by the consumer")
	ErrOverflow     = errors.New("completion queue overflow")
	ErrNoConnection = errors.New("never connected")
)

// Invalid returns an ErrInvalid with its reason.
func Invalid(why string) error { return fmt.Errorf("%s: %w", why, verbs.ErrInvalid) }

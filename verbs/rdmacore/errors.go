//go:build rdmacore && cgo

package rdmacore

// #include "shim.h"
import "C"

import (
	"errors"
	"fmt"

	"github.com/rdmad/rdmad/verbs"
)

// Reasons of QP.Err.
var (
	errRemoved  = errors.New("device removed")
	errMoved    = errors.New("the address has moved to other hardware")
	errNotBound = errors.New("no window of this queue pair is bound under the key")
)

func errOfEvent(kind C.int) error {
	switch kind {
	case C.IBV_EVENT_QP_REQ_ERR:
		return errors.New("the device found a request of the peer invalid")
	case C.IBV_EVENT_QP_ACCESS_ERR:
		return errors.New("the peer reached for memory that it has no right to")
	}
	return errors.New("the device failed the queue pair")
}

// errOfStatus returns the reason for a queue pair that ended with this completion status.
func errOfStatus(s verbs.WCStatus) error {
	return fmt.Errorf("request failed: %w", verbs.StatusError(s))
}

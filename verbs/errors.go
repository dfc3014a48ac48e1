package verbs

import (
	"errors"
	"fmt"
)

// Errors that calls return, wrapped.
var (
	// ErrNotSupported means that the device cannot do this.
	ErrNotSupported = errors.New("not supported by this device")
	// ErrClosed means that the object was closed.
	ErrClosed = errors.New("closed")
	// ErrBusy means that other objects or posted requests still use the object.
	ErrBusy = errors.New("still in use")
	// ErrInvalid means that an argument is invalid, or names an object of another owner.
	ErrInvalid = errors.New("invalid argument")
	// ErrQueueFull means that the work queue has no room for another request.
	ErrQueueFull = errors.New("work queue full")
	// ErrQPState means that the queue pair must be connected first.
	ErrQPState = errors.New("not allowed in this queue pair state")
	// ErrDisconnected means that the QP ended in order.
	ErrDisconnected = errors.New("disconnected")
	// ErrNoReceive means that the peer had no receive for one of our Sends, or only one
	// that is too short. Devices report either for both.
	ErrNoReceive = errors.New("the peer has no receive that takes the Send")
)

// TerminateError is a protocol or protection error that ended a connection, with the codes
// of RFC 5040 §4.8 (layer, error type, error code).
type TerminateError struct {
	Remote bool  // the peer detected it and sent the Terminate; otherwise we did
	Layer  uint8 // 0 RDMAP, 1 DDP, 2 MPA (LLP)
	Type   uint8
	Code   uint8
	Reason string // description of the codes
}

func (e *TerminateError) Error() string {
	who := "local"
	if e.Remote {
		who = "remote"
	}
	return fmt.Sprintf("%s terminate: %s (layer %d, type %d, code 0x%02x)", who, e.Reason, e.Layer, e.Type, e.Code)
}

// Codes of DDP's untagged buffer errors (RFC 5041 §7.2). Linux siw also sends the first
// where the second is meant.
const (
	layerDDP     = 1
	typeUntagged = 2
	codeNoBuffer = 2
	codeTooLong  = 5
)

// Is reports a match with ErrNoReceive for a Terminate with which the peer reports that.
func (e *TerminateError) Is(target error) bool {
	return target == ErrNoReceive && e.Remote && e.Layer == layerDDP && e.Type == typeUntagged &&
		(e.Code == codeNoBuffer || e.Code == codeTooLong)
}

// StatusError means that a connection ended because a request completed with this status.
type StatusError WCStatus

func (e StatusError) Error() string { return WCStatus(e).String() }

// Is reports a match with ErrNoReceive for the statuses of InfiniBand and RoCE: Receiver
// Not Ready for a missing receive, Invalid Request for one that is too short.
func (e StatusError) Is(target error) bool {
	return target == ErrNoReceive && (WCStatus(e) == WCRNRRetryExcErr || WCStatus(e) == WCRemInvReqErr)
}

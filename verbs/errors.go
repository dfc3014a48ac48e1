package verbs

import (
	"errors"
	"fmt"
)

// Errors that calls wrap.
var (
	// ErrNotSupported is wrapped by every "this device can't" answer.
	ErrNotSupported = errors.New("not supported by this device")
	// ErrClosed means that the object was closed.
	ErrClosed = errors.New("closed")
	// ErrBusy means that other objects or posted requests still use the object.
	ErrBusy = errors.New("still in use")
	// ErrInvalid means that an argument makes no sense, or names another's object.
	ErrInvalid = errors.New("invalid argument")
	// ErrQueueFull means that as many requests are outstanding as the queue takes.
	ErrQueueFull = errors.New("work queue full")
	// ErrQPState means that the queue pair must be connected first.
	ErrQPState = errors.New("not allowed in this queue pair state")
	// ErrDisconnected is the reason of a QP that ended in order.
	ErrDisconnected = errors.New("disconnected")
	// ErrNoReceive is what the reason of a QP is when the peer had no receive for
	// a Send of ours, or only one that is too short. Devices say the one or the
	// other for both.
	ErrNoReceive = errors.New("the peer has no receive that takes the Send")
)

// TerminateError is a protocol or protection error that ended a connection,
// with the codes of RFC 5040 §4.8 (layer, error type, error code).
type TerminateError struct {
	Remote bool  // the peer detected it and sent the Terminate; else we did
	Layer  uint8 // 0 RDMAP, 1 DDP, 2 MPA (LLP)
	Type   uint8
	Code   uint8
	Reason string // words for the codes
}

func (e *TerminateError) Error() string {
	who := "local"
	if e.Remote {
		who = "remote"
	}
	return fmt.Sprintf("%s terminate: %s (layer %d, type %d, code 0x%02x)", who, e.Reason, e.Layer, e.Type, e.Code)
}

// Codes of DDP's untagged buffer errors (RFC 5041 §7.2). Linux siw says the first
// also when it means the second.
const (
	layerDDP     = 1
	typeUntagged = 2
	codeNoBuffer = 2
	codeTooLong  = 5
)

// Is makes ErrNoReceive of a Terminate by which the peer says so.
func (e *TerminateError) Is(target error) bool {
	return target == ErrNoReceive && e.Remote && e.Layer == layerDDP && e.Type == typeUntagged &&
		(e.Code == codeNoBuffer || e.Code == codeTooLong)
}

// StatusError is the end of a connection by a request that completed with a
// status.
type StatusError WCStatus

func (e StatusError) Error() string { return WCStatus(e).String() }

// Is makes ErrNoReceive of the statuses that InfiniBand and RoCE have for it: no
// receive is Receiver Not Ready, one that is too short an Invalid Request.
func (e StatusError) Is(target error) bool {
	return target == ErrNoReceive && (WCStatus(e) == WCRNRRetryExcErr || WCStatus(e) == WCRemInvReqErr)
}

package oncrpc

import (
	"errors"
	"fmt"
)

// AcceptStat is the status of an accepted call (accept_stat, RFC 5531 §9).
type AcceptStat uint32

// The statuses of accepted calls.
const (
	Success      AcceptStat = 0
	ProgUnavail  AcceptStat = 1 // the program is not served here
	ProgMismatch AcceptStat = 2 // the program's version is not served here
	ProcUnavail  AcceptStat = 3 // the program has no such procedure
	GarbageArgs  AcceptStat = 4 // the arguments can't be decoded
	SystemErr    AcceptStat = 5 // out of memory, or another error of the server
)

var acceptStatNames = [...]string{"SUCCESS", "PROG_UNAVAIL", "PROG_MISMATCH", "PROC_UNAVAIL", "GARBAGE_ARGS", "SYSTEM_ERR"}

// String returns the name in RFC 5531.
func (s AcceptStat) String() string { return enumName(acceptStatNames[:], uint32(s)) }

// RejectStat is why a call was denied (reject_stat, RFC 5531 §9).
type RejectStat uint32

// Reasons of denial.
const (
	RPCMismatch RejectStat = 0 // the RPC version is not 2
	AuthError   RejectStat = 1 // the caller could not be authenticated
)

// AuthStat is why authentication failed (auth_stat, RFC 5531 §9).
type AuthStat uint32

// Reasons of failed authentication.
const (
	AuthBadCred      AuthStat = 1
	AuthRejectedCred AuthStat = 2
	AuthBadVerf      AuthStat = 3
	AuthRejectedVerf AuthStat = 4
	AuthTooWeak      AuthStat = 5
	AuthInvalidResp  AuthStat = 6
	AuthFailed       AuthStat = 7
)

var authStatNames = [...]string{"AUTH_OK", "AUTH_BADCRED", "AUTH_REJECTEDCRED", "AUTH_BADVERF", "AUTH_REJECTEDVERF", "AUTH_TOOWEAK", "AUTH_INVALIDRESP", "AUTH_FAILED"}

// String returns the name in RFC 5531.
func (s AuthStat) String() string { return enumName(authStatNames[:], uint32(s)) }

func enumName(names []string, v uint32) string {
	if v < uint32(len(names)) {
		return names[v]
	}
	return fmt.Sprint(v)
}

// AcceptError is a reply that accepts the call without success.
type AcceptError struct {
	Stat      AcceptStat // not Success
	Low, High uint32     // ProgMismatch only: the versions served
}

func (e *AcceptError) Error() string {
	if e.Stat == ProgMismatch {
		return fmt.Sprintf("oncrpc: %v, versions %d to %d are served", e.Stat, e.Low, e.High)
	}
	return fmt.Sprintf("oncrpc: %v", e.Stat)
}

// DeniedError is a reply that denies the call.
type DeniedError struct {
	Stat      RejectStat
	Low, High uint32   // RPCMismatch only: the RPC versions spoken
	Auth      AuthStat // AuthError only
}

func (e *DeniedError) Error() string {
	if e.Stat == RPCMismatch {
		return fmt.Sprintf("oncrpc: RPC_MISMATCH, versions %d to %d are spoken", e.Low, e.High)
	}
	return fmt.Sprintf("oncrpc: AUTH_ERROR, %v", e.Auth)
}

// Answered reports whether the result of a call, err or none, is the answer of a working
// server. Such a server may lack the program or the version, or refuse the credential.
func Answered(err error) bool {
	if accept, _ := errors.AsType[*AcceptError](err); accept != nil {
		return accept.Stat != SystemErr
	}
	denied, _ := errors.AsType[*DeniedError](err)
	return err == nil || denied != nil
}

// The errors that this package makes itself, made once: a peer must not be
// able to cost an allocation with each bad call.
var (
	errRPCMismatch = &DeniedError{Stat: RPCMismatch, Low: RPCVersion, High: RPCVersion}
	errBadCred     = &DeniedError{Stat: AuthError, Auth: AuthBadCred}
	errBadVerf     = &DeniedError{Stat: AuthError, Auth: AuthBadVerf}
	errProgUnavail = &AcceptError{Stat: ProgUnavail}
	errGarbageArgs = &AcceptError{Stat: GarbageArgs}
)

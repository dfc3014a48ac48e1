package rpcbind

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
)

// UnreachableError means that no rpcbind endpoint accepts connections.
type UnreachableError struct {
	Causes []error // one for each endpoint
}

func (e *UnreachableError) Error() string {
	causes := make([]string, 0, len(e.Causes))
	for _, err := range e.Causes {
		causes = append(causes, err.Error())
	}
	return "rpcbind can't be reached (" + strings.Join(causes, "; ") + "): start it, such as by systemctl start rpcbind.socket, or leave rpcbind off"
}

// Unwrap returns the causes.
func (e *UnreachableError) Unwrap() []error { return e.Causes }

// CallError is a call that rpcbind did not answer with success.
type CallError struct {
	Op  string // SET, UNSET, DUMP
	At  Endpoint
	Err error
}

func (e *CallError) Error() string {
	return fmt.Sprintf("rpcbind at %v: %s: %v%s", e.At, e.Op, e.Err, e.advice())
}

func (e *CallError) Unwrap() error { return e.Err }

// advice returns what to do, if that is known.
func (e *CallError) advice() string {
	if denied, ok := errors.AsType[*oncrpc.DeniedError](e.Err); ok && denied.Stat == oncrpc.AuthError {
		if e.At.Network == "unix" {
			return ": it refuses this user; see its log"
		}
		return ": it lets nobody register over " + e.At.Network + "; give access to its socket, /run/rpcbind.sock, or start rpcbind with -i"
	}
	if accept, ok := errors.AsType[*oncrpc.AcceptError](e.Err); ok && accept.Stat == oncrpc.ProgMismatch {
		return ": it speaks neither version 3 nor 4, which know of RDMA; replace it by a newer rpcbind"
	}
	return ""
}

// TakenError means that rpcbind has another service's address for a program, version and
// transport.
type TakenError struct {
	What    string // program, version and transport
	Program uint32
	Version uint32
	Address string // as registered; "" if unknown
	Owner   string // the user, as reported by rpcbind
}

func (e *TakenError) Error() string {
	if e.Address == "" {
		return fmt.Sprintf("rpcbind does not take %s: another service was faster, or rpcbind is out of memory", e.What)
	}
	at := e.Address
	if a, err := parseUniversal(at); err == nil {
		at = a.String()
	}
	return fmt.Sprintf("rpcbind has %s at %s already, registered by %s: stop that service or, if it is gone, remove what it left by rpcinfo -d %d %d",
		e.What, at, e.Owner, e.Program, e.Version)
}

// KeptError means that rpcbind refused to remove our registration, because another user
// registered it.
type KeptError struct {
	What    string // program, version and transport
	Program uint32
	Version uint32
	Owner   string
}

func (e *KeptError) Error() string {
	return fmt.Sprintf("rpcbind keeps %s, registered by %s: remove it as that user or as root by rpcinfo -d %d %d",
		e.What, e.Owner, e.Program, e.Version)
}

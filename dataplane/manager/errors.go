package manager

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/dataplane"
)

// ExistsError is a name that is taken; errors.Is finds dataplane.ErrExists.
type ExistsError struct {
	What, Name string // listener, connector or service
	State      string // of the one that is there
}

func (e *ExistsError) Error() string {
	if e.State == StateDraining {
		return fmt.Sprintf("%s %s is being removed; try again when it is gone", e.What, e.Name)
	}
	return fmt.Sprintf("%s %s already exists; remove it first or choose another name", e.What, e.Name)
}

// Is makes errors.Is(err, dataplane.ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == dataplane.ErrExists }

// NotFoundError is a name that nobody has; errors.Is finds
// dataplane.ErrNotFound.
type NotFoundError struct {
	What, Name string
	Known      []string // the names there are
}

func (e *NotFoundError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("no %s %s; there are none", e.What, e.Name)
	}
	return fmt.Sprintf("no %s %s; there are: %s", e.What, e.Name, strings.Join(e.Known, ", "))
}

// Is makes errors.Is(err, dataplane.ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == dataplane.ErrNotFound }

// InUseError is a service that listeners hand calls to.
type InUseError struct {
	Service   string
	Listeners []string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("service %s is in use by %s; remove them first", e.Service, strings.Join(e.Listeners, ", "))
}

// UnknownError is a provider, or a kind of service, that this build does not
// have.
type UnknownError struct {
	What  string   // provider or kind of service
	Name  string   // as asked for
	Known []string // those there are
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s %q is not in this build, which has: %s", e.What, e.Name, strings.Join(e.Known, ", "))
}

// AddressError is an address that could not be bound.
type AddressError struct {
	What    string // listener NAME, service NAME
	Address string
	Err     error // syscall.EADDRINUSE when somebody else has it
	InUse   bool
}

func (e *AddressError) Error() string {
	if e.InUse {
		return fmt.Sprintf("%s: address %s is in use; choose another, or end what listens there", e.What, e.Address)
	}
	return fmt.Sprintf("%s: can't listen on %s: %v", e.What, e.Address, e.Err)
}

func (e *AddressError) Unwrap() error { return e.Err }

// OpenError is a service whose directories or files could not be had.
type OpenError struct {
	Service string
	Err     error
}

func (e *OpenError) Error() string { return "service " + e.Service + ": " + e.Err.Error() }

func (e *OpenError) Unwrap() error { return e.Err }

// StoreError says that a change could not be kept for the next start, so that
// nothing was changed.
type StoreError struct{ Err error }

func (e *StoreError) Error() string {
	return fmt.Sprintf("not changed, because it can't be kept for the next start: %v", e.Err)
}

func (e *StoreError) Unwrap() error { return e.Err }

// FailedError is a listener that is kept but could not be brought back.
type FailedError struct{ Name, Failure string }

func (e *FailedError) Error() string {
	return fmt.Sprintf("listener %s is not up (%s); remove it or add it again", e.Name, e.Failure)
}

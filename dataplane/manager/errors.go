package manager

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/dataplane"
)

// ExistsError means that a name is in use. errors.Is finds dataplane.ErrExists.
type ExistsError struct {
	What, Name string // listener, connector or service
	State      string // of the existing one
}

func (e *ExistsError) Error() string {
	if e.State == StateDraining {
		return fmt.Sprintf("%s %s is being removed; try again when it is gone", e.What, e.Name)
	}
	return fmt.Sprintf("%s %s already exists; remove it first or choose another name", e.What, e.Name)
}

// Is makes errors.Is(err, dataplane.ErrExists) true.
func (e *ExistsError) Is(target error) bool { return target == dataplane.ErrExists }

// NotFoundError means that a name does not exist. errors.Is finds dataplane.ErrNotFound.
type NotFoundError struct {
	What, Name string
	Known      []string // the existing names
}

func (e *NotFoundError) Error() string {
	if len(e.Known) == 0 {
		return fmt.Sprintf("no %s %s; there are none", e.What, e.Name)
	}
	return fmt.Sprintf("no %s %s; there are: %s", e.What, e.Name, strings.Join(e.Known, ", "))
}

// Is makes errors.Is(err, dataplane.ErrNotFound) true.
func (e *NotFoundError) Is(target error) bool { return target == dataplane.ErrNotFound }

// InUseError means that listeners use a service.
type InUseError struct {
	Service   string
	Listeners []string
}

func (e *InUseError) Error() string {
	return fmt.Sprintf("service %s is in use by %s; remove them first", e.Service, strings.Join(e.Listeners, ", "))
}

// NeededError means that the configuration file gives settings for a listener or connector that it does
// not have itself.
type NeededError struct{ Name, At string }

func (e *NeededError) Error() string {
	return fmt.Sprintf("%s gives settings for listener/%s: without it, rdmad would not start; remove these settings first, and reload the file", e.At, e.Name)
}

// UnknownError means that this build does not have a provider or a kind of service.
type UnknownError struct {
	What  string   // provider or kind of service
	Name  string   // the requested name
	Known []string // the available names
}

func (e *UnknownError) Error() string {
	return fmt.Sprintf("%s %q is not in this build, which has: %s", e.What, e.Name, strings.Join(e.Known, ", "))
}

// AddressError means that an address could not be bound.
type AddressError struct {
	What    string // listener NAME, service NAME
	Address string
	Err     error // syscall.EADDRINUSE when another socket has it
	InUse   bool
}

func (e *AddressError) Error() string { return e.What + ": " + e.reason() }

func (e *AddressError) reason() string {
	if e.InUse {
		return fmt.Sprintf("address %s is in use; choose another, or end what listens there", e.Address)
	}
	return fmt.Sprintf("can't listen on %s: %v", e.Address, e.Err)
}

func (e *AddressError) Unwrap() error { return e.Err }

// OpenError means that the directories or files of a service could not be opened.
type OpenError struct {
	What, Name string
	Err        error
}

func (e *OpenError) Error() string { return e.What + " " + e.Name + ": " + e.Err.Error() }

func (e *OpenError) Unwrap() error { return e.Err }

// ErrNotTried means that the time of a change was over before the turn of an element came.
var ErrNotTried = errors.New("not tried")

// errAllTime is why it was over.
var errAllTime = errors.New("others took all the time")

// StoreError means that a change could not be stored for the next start. So nothing was
// changed.
type StoreError struct{ Err error }

func (e *StoreError) Error() string {
	return fmt.Sprintf("not changed, because it can't be kept for the next start: %v", e.Err)
}

func (e *StoreError) Unwrap() error { return e.Err }

// FailedError means that an element is kept but could not be restored.
type FailedError struct{ What, Name, Failure string }

func (e *FailedError) Error() string {
	return fmt.Sprintf("%s %s is not up (%s); remove it or add it again", e.What, e.Name, e.Failure)
}

// Failure is the reason why one element can't be as a Change wants it.
type Failure struct {
	What, Name string // service, listener or connector, and its name; or limits, and the field
	Err        error
	Changed    bool // an element or a limit of a file, as operators changed it
}

// Outside reports whether the cause is outside of rdmad's configuration and may go away: an
// address in use, a directory that is not mounted, a device that is missing.
func (f *Failure) Outside() bool {
	return !errors.As(f.Err, new(*InvalidError)) && !errors.As(f.Err, new(*UnknownError)) && !errors.As(f.Err, new(*NotFoundError))
}

// Field returns the field that is to blame, or "".
func (f *Failure) Field() string {
	var invalid *InvalidError
	switch {
	case errors.As(f.Err, &invalid):
		return invalid.Field
	case errors.As(f.Err, new(*NotFoundError)):
		return "service"
	case errors.As(f.Err, new(*OpenError)):
		return "nfs.path"
	case !errors.As(f.Err, new(*AddressError)):
		return ""
	case f.What == "service":
		return "nfs.tcp_listen"
	case f.What == "connector":
		return "listen"
	}
	return "address"
}

// Reason returns the error without the element's name.
func (f *Failure) Reason() string {
	if address, ok := errors.AsType[*AddressError](f.Err); ok {
		return address.reason()
	}
	if open, ok := errors.AsType[*OpenError](f.Err); ok {
		return open.Err.Error()
	}
	if invalid, ok := errors.AsType[*InvalidError](f.Err); ok {
		return invalid.Text
	}
	return f.Err.Error()
}

// ChangeErrors are the reasons why a Change can't be made.
type ChangeErrors []Failure

func (f ChangeErrors) Error() string { return errors.Join(f.Unwrap()...).Error() }

// Unwrap lets errors.As find each reason.
func (f ChangeErrors) Unwrap() []error {
	out := make([]error, len(f))
	for i := range f {
		out[i] = f[i].Err
	}
	return out
}

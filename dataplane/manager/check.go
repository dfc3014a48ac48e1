package manager

import (
	"errors"
	"net"
	"syscall"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connector"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs"
)

// InvalidError means that a field of a specification is not valid.
type InvalidError = spec.Error

// invalid returns an *InvalidError for a data plane error about a value.
func invalid(field string, err error) error {
	if err == nil {
		return nil
	}
	if access, ok := errors.AsType[*dataplane.AccessError](err); ok {
		return &InvalidError{Field: access.List, Text: access.Err.Error()}
	}
	return &InvalidError{Field: field, Text: err.Error()}
}

// bindError returns the error for a listener or connector that could not be added.
func bindError(what, name, address string, err error) error {
	switch {
	case errors.As(err, new(*dataplane.AccessError)):
		return invalid("", err)
	case errors.Is(err, dataplane.ErrShutdown), errors.As(err, new(*dataplane.NoMemoryError)):
		return err
	}
	if bind, ok := errors.AsType[*connector.BindError](err); ok {
		err = bind.Err
	} else if what == "connector" {
		return err
	}
	return NewAddressError(what+" "+name, address, err)
}

// NewAddressError returns the error for an address that can't be bound. It removes what net
// and the providers add around the reason.
func NewAddressError(what, address string, err error) *AddressError {
	inUse := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, verbs.ErrBusy)
	return &AddressError{What: what, Address: address, Err: BindReason(err), InUse: inUse}
}

// BindReason returns why an address can't be bound, without the operation and the repeated
// address that net, os and the providers add.
func BindReason(err error) error {
	var errno syscall.Errno
	var dns *net.DNSError
	var known interface{ BindReason() error } // of a provider that knows more than the errno
	switch {
	case errors.As(err, &known):
		return known.BindReason()
	case errors.As(err, &errno):
		return errno
	case errors.As(err, &dns):
		return errors.New("no such host")
	}
	return err
}

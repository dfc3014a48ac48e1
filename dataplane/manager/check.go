package manager

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs"
)

// InvalidError is a field of a specification that can't be taken.
type InvalidError = spec.Error

// checkService checks what an operator wants.
func (m *Manager) checkService(s *ServiceSpec) error {
	if err := spec.Check(s); err != nil {
		return err
	}
	kind := s.Kind()
	if kind == "" {
		return &InvalidError{Field: "kind", Text: "exactly one of nfs, echo and forward makes a service"}
	}
	if m.cfg.Kinds[kind] == nil {
		return &UnknownError{What: "kind of service", Name: kind, Known: sortedKeys(m.cfg.Kinds)}
	}
	if n := s.NFS; n != nil && !filepath.IsAbs(n.Path) {
		return &InvalidError{Field: "nfs.path", Text: fmt.Sprintf("%q must begin with /: rdmad may be started somewhere else next time", n.Path)}
	}
	return nil
}

// checkListener checks what an operator wants; the service is looked for
// later.
func (m *Manager) checkListener(l *ListenerSpec) error {
	if err := spec.Check(l); err != nil {
		return err
	}
	if !slices.Contains(m.cfg.Providers, l.Provider) {
		return &UnknownError{What: "provider", Name: l.Provider, Known: m.cfg.Providers}
	}
	if l.RPCBind && m.cfg.Registrar == nil {
		return &InvalidError{Field: "rpcbind", Text: "this rdmad can't register with rpcbind; leave it off"}
	}
	return nil
}

// invalid makes an *InvalidError of what the data plane says of a value.
func invalid(field string, err error) error {
	var limit *dataplane.LimitError
	if errors.As(err, &limit) {
		return &InvalidError{Field: "limits." + limit.Limit, Text: fmt.Sprintf("%d is out of range 0..%d", limit.Value, dataplane.MaxLimit)}
	}
	var access *dataplane.AccessError
	if errors.As(err, &access) {
		return &InvalidError{Field: access.List, Text: access.Err.Error()}
	}
	return &InvalidError{Field: field, Text: err.Error()}
}

// NewInvalidError makes an *InvalidError of a limit or an access list that the
// data plane does not take; nil of other errors.
func NewInvalidError(err error) error {
	var limit *dataplane.LimitError
	var access *dataplane.AccessError
	if errors.As(err, &limit) || errors.As(err, &access) {
		return invalid("", err)
	}
	return nil
}

// listenError says why a listener could not be bound.
func listenError(l *ListenerSpec, err error) error {
	if bad := NewInvalidError(err); bad != nil {
		return bad
	}
	switch {
	case errors.Is(err, dataplane.ErrShutdown):
		return err
	case errors.Is(err, dataplane.ErrExists):
		return &ExistsError{What: "listener", Name: l.Name}
	}
	return NewAddressError("listener "+l.Name, l.Address, err)
}

// NewAddressError says why an address can't be had, without what net and the
// providers put around the reason.
func NewAddressError(what, address string, err error) *AddressError {
	inUse := errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, verbs.ErrBusy)
	return &AddressError{What: what, Address: address, Err: BindReason(err), InUse: inUse}
}

// BindReason is why an address can't be had, without the operation and the
// repeated address that net, os and the providers put around it.
func BindReason(err error) error {
	var errno syscall.Errno
	var dns *net.DNSError
	var known interface{ BindReason() error } // of a provider that knows more than its number
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

package manager

import (
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/verbs"
)

// nameSyntax is what stands unquoted in a scope, in a metric's label and in a
// path.
var nameSyntax = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$`)

// NameProblem says what is wrong with the name of a service or listener; ""
// for nothing.
func NameProblem(name string) string {
	if !nameSyntax.MatchString(name) {
		return fmt.Sprintf("%q: letters, digits, '_', '.' and '-' make a name, 63 at most", name)
	}
	return ""
}

// AddressProblem says what is wrong with host:port, without looking anything
// up; port 0 lets the system choose. It is "" for nothing.
func AddressProblem(v string) string {
	host, port, err := net.SplitHostPort(v)
	if err != nil || strings.ContainsAny(host, " /\\") {
		return fmt.Sprintf("%q is not HOST:PORT", v)
	}
	if n, err := strconv.ParseUint(port, 10, 64); err != nil || n > 65535 {
		return fmt.Sprintf("port %q is not a number from 0 to 65535", port)
	}
	return ""
}

func checkName(name string) error { return problem("name", NameProblem(name)) }

func checkAddress(field, v string) error { return problem(field, AddressProblem(v)) }

func problem(field, text string) error {
	if text == "" {
		return nil
	}
	return &InvalidError{field, text}
}

// Squashes are the values of an nfs service's squash.
var Squashes = []string{"none", "root", "all"}

// checkService checks what an operator wants.
func (m *Manager) checkService(s *ServiceSpec) error {
	if err := checkName(s.Name); err != nil {
		return err
	}
	kind := s.Kind()
	if kind == "" {
		return &InvalidError{"kind", "exactly one of nfs, echo and forward makes a service"}
	}
	if m.cfg.Kinds[kind] == nil {
		return &UnknownError{What: "kind of service", Name: kind, Known: sortedKeys(m.cfg.Kinds)}
	}
	switch {
	case s.NFS != nil:
		return checkNFS(s.NFS)
	case s.Forward != nil:
		return checkAddress("forward.address", s.Forward.Address)
	}
	return nil
}

func checkNFS(n *NFSSpec) error {
	if !filepath.IsAbs(n.Path) {
		return &InvalidError{"nfs.path", fmt.Sprintf("%q must begin with /: rdmad may be started somewhere else next time", n.Path)}
	}
	if n.Squash != "" && !slices.Contains(Squashes, n.Squash) {
		return &InvalidError{"nfs.squash", fmt.Sprintf("%q is none of %s", n.Squash, strings.Join(Squashes, ", "))}
	}
	if n.TCPListen != "" {
		return checkAddress("nfs.tcp_listen", n.TCPListen)
	}
	return nil
}

// checkListener checks what an operator wants; the service is looked for
// later.
func (m *Manager) checkListener(l *ListenerSpec) error {
	if err := checkName(l.Name); err != nil {
		return err
	}
	if !slices.Contains(m.cfg.Providers, l.Provider) {
		return &UnknownError{What: "provider", Name: l.Provider, Known: m.cfg.Providers}
	}
	if l.RPCBind && m.cfg.Registrar == nil {
		return &InvalidError{"rpcbind", "this rdmad can't register with rpcbind; leave it off"}
	}
	return checkAddress("address", l.Address)
}

// invalid makes an *InvalidError of what the data plane says of a value.
func invalid(field string, err error) error {
	var limit *dataplane.LimitError
	if errors.As(err, &limit) {
		return &InvalidError{"limits." + limit.Limit, fmt.Sprintf("%d is out of range 0..%d", limit.Value, dataplane.MaxLimit)}
	}
	var access *dataplane.AccessError
	if errors.As(err, &access) {
		return &InvalidError{access.List, access.Err.Error()}
	}
	return &InvalidError{field, err.Error()}
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

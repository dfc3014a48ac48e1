package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/metrics"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs/tcpaddr"
)

// opening holds the state of "rdmad check" while it tries to read and bind what a configuration
// names. It does not try defaults, and leaves nothing behind.
type opening struct {
	c         *config.Config
	providers providers.Set
	log       *slog.Logger
	running   bool              // an rdmad uses the state directory, and probably the addresses
	rulesBad  bool              // control.roles or control.group
	mistakes  configfile.Errors // found before
	errs      configfile.Errors
}

// storedProblems returns why rdmad would not start with the services, listeners, connectors and
// limits that operators stored. It also returns the configuration with the stored limits that are
// valid, and these.
func storedProblems(c *config.Config) (*config.Config, spec.Delta, error) {
	changed, err := storedChanges(c.State.Path)
	if err != nil {
		return nil, nil, err
	}
	with, limits, err := withLimits(c, changed.Limits)
	if err != nil {
		return nil, nil, err
	}
	with.Origins = maps.Clone(c.Origins)
	for path := range limits {
		delete(with.Origins, "limits."+path)
	}
	// An earlier rdmad's. As in storedChanges, others report a path that can't be read.
	_, err = manager.NewFile((&state{path: c.State.Path}).connectors()).Load()
	if err != nil && !errors.As(err, new(*fs.PathError)) {
		return nil, nil, fmt.Errorf("connectors added before: %w", err)
	}
	return with, limits, nil
}

// tryOpening returns everything that fails as configfile.Errors, or nil. mistakes are those
// known before. It adds them, and leaves out what failed because of them.
func tryOpening(ctx context.Context, c *config.Config, mistakes configfile.Errors) error {
	o := &opening{c: c, mistakes: mistakes, providers: make(providers.Set), log: slog.New(slog.DiscardHandler), running: isRunning(c.State.Path)}
	defer o.providers.Close(o.log)
	o.state()
	o.certificates()
	o.groups()
	o.note("metrics.web_config", metrics.CheckWebConfig(c.Metrics.WebConfig))
	o.exports(ctx)
	o.addresses(ctx)
	all := slices.Concat(mistakes, o.errs)
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(a, b *config.Error) int { return a.Line - b.Line })
	return all
}

func (o *opening) note(key string, err error) {
	if err != nil && !o.mistakes.Concern(key) {
		o.errs = append(o.errs, &config.Error{Origin: o.c.Origins.Of(key), Key: key, Msg: config.OneLine(err)})
	}
}

func (o *opening) certificates() {
	for section, files := range o.c.Certificates() {
		_, err := auth.LoadCertificates(*files, o.log)
		o.note(section+".tls", err)
	}
	if f := o.c.Fleet; f != nil {
		_, err := fleetTLS(f.TLS)
		o.note("fleet.tls", err)
	}
}

// groups looks up the groups that have roles.
func (o *opening) groups() {
	rules := o.c.Control.Access().Rules
	for key, err := range rules.Problems() {
		o.note("control."+key, err)
		o.rulesBad = true
	}
}

// answerTimeout is how long check waits for the file system of an export. Tests change it.
var answerTimeout = filesTimeout

func (o *opening) exports(ctx context.Context) {
	read := func(path string) error {
		ctx, cancel := context.WithTimeout(ctx, answerTimeout)
		defer cancel()
		_, err := until(ctx, path, func() (any, error) { return nil, readExport(path) })
		return err
	}
	for _, one := range missingExports(o.c, &spec.Changes{}, read) {
		if !o.mistakes.Concern(one.Key) {
			o.errs = append(o.errs, one)
		}
	}
}

// heldAddress is an address that is bound while others are tried.
type heldAddress struct {
	config.Address
	at netip.AddrPort // as bound
	io.Closer
}

// addresses briefly binds the addresses that the configuration names, all at a time: of addresses that
// overlap, such as 0.0.0.0:20049 and 127.0.0.1:20049, only one can be bound.
func (o *opening) addresses(ctx context.Context) {
	var held []heldAddress
	defer func() {
		for _, b := range held {
			_ = b.Close()
		}
	}()
	for _, one := range o.c.Addresses() {
		list, _, _ := strings.Cut(one.Key, "]") // so that the provider counts, too
		if o.c.Origins.Of(one.Key) == (config.Origin{}) || o.mistakes.Concern(one.Key) || one.Provider != "" && o.mistakes.Concern(list+"].provider") {
			continue
		}
		b, err := o.bind(ctx, one)
		if b != nil {
			held = append(held, *b)
		}
		if err == nil || o.running && errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		text := "can't listen on %s: %w"
		if at := slices.IndexFunc(held, func(b heldAddress) bool { return hasPort(one.Address, b.at.Port()) }); at >= 0 && errors.Is(err, syscall.EADDRINUSE) {
			text += "; " + held[at].Key + " has this port, too"
		}
		o.note(one.Key, fmt.Errorf(text, one.Address, manager.BindReason(err)))
	}
	o.registrations(held)
}

// registrations finds a listener that rpcbind can't tell from one before it, among those that operators
// have not changed.
func (o *opening) registrations(held []heldAddress) {
	var list []rpcbind.Registration
	changed, _ := storedChanges(o.c.State.Path) // storedProblems has the error
	for i := range o.c.Listeners {
		l := &o.c.Listeners[i]
		if changed.Listeners[l.Name] != nil || slices.Contains(changed.Removed.Listeners, l.Name) {
			continue
		}
		s := slices.IndexFunc(o.c.Services, func(s spec.Service) bool { return s.Name == l.Service })
		key := fmt.Sprintf("listeners[%d].", i)
		at := boundAt(held, key+"address", l.Address)
		if !l.RPCBind || s < 0 || !at.IsValid() {
			continue
		}
		var tcp netip.AddrPort
		if n := o.c.Services[s].NFS; n != nil {
			tcp = boundAt(held, fmt.Sprintf("services[%d].nfs.tcp_listen", s), n.TCPListen)
		}
		list = append(list, registrations(&o.c.Services[s], tcp, at)...)
		if _, err := rpcbind.New(rpcbind.Config{Registrations: list}); err != nil {
			o.note(key+"rpcbind", errors.New(strings.TrimPrefix(err.Error(), "rpcbind: ")))
			return
		}
	}
}

// boundAt returns the address at which a key was bound. If an rdmad that runs has it, it is that of
// the configuration, unless that is a name.
func boundAt(held []heldAddress, key, address string) netip.AddrPort {
	if i := slices.IndexFunc(held, func(b heldAddress) bool { return b.Key == key }); i >= 0 {
		return held[i].at
	}
	if strings.HasPrefix(address, ":") {
		address = "[::]" + address
	}
	at, _ := netip.ParseAddrPort(address)
	return at
}

func hasPort(address string, port uint16) bool {
	_, p, err := net.SplitHostPort(address)
	return err == nil && p == strconv.Itoa(int(port))
}

// bind returns nil without an error for a Unix socket, which it has removed again.
func (o *opening) bind(ctx context.Context, a config.Address) (*heldAddress, error) {
	if strings.HasPrefix(a.Address, "unix:") {
		rules := o.c.Control.Access().Rules
		if o.rulesBad {
			rules = auth.Rules{} // they are reported already
		}
		return nil, controlplane.TryUnix(ctx, a.Address, rules)
	}
	if a.Provider == "" {
		l, err := tcpaddr.Listen(ctx, a.Address)
		if err != nil {
			return nil, err
		}
		return &heldAddress{a, tcpaddr.Of(l.Addr()), l}, nil
	}
	p, err := o.providers.Open(a.Provider, providers.Options{Logger: o.log, Rdmacore: o.c.Providers.Rdmacore})
	if err != nil {
		return nil, err
	}
	l, err := p.Listen(ctx, a.Address)
	if err != nil {
		return nil, err
	}
	return &heldAddress{a, l.Addr(), l}, nil
}

// isRunning reports whether a process has locked a state directory, also one of another container. It does not try
// the lock: an rdmad that starts at that moment would be kept out.
func isRunning(state string) bool {
	f, err := os.Open(filepath.Join(state, "lock"))
	if err != nil {
		return errors.Is(err, fs.ErrPermission) // it can't be known, so assume that it runs
	}
	defer f.Close()
	held := unix.Flock_t{Type: unix.F_WRLCK}
	err = unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &held)
	return err != nil || held.Type != unix.F_UNLCK
}

package planetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/rpcbind"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// NewManager returns the manager of a plane. Its configuration file has the plane's listeners
// and connectors, and the service export. It binds nothing and needs no end.
func NewManager(p *Plane) manager.API {
	m := manager.New(manager.Config{
		Dataplane: p,
		Provider:  func(string) (rdmacm.Provider, error) { return nil, nil },
		Providers: []string{"softiwarp"},
		Kinds:     map[string]manager.Maker{"echo": newService, "forward": newService, "nfs": newService},
		Registrar: registrar{},
		Bounds:    p,
		Needed:    func(string) error { return nil },
		Room:      func(int) error { return nil },
		Counted:   func(int) {},
		Logger:    slog.New(slog.DiscardHandler),
	})
	if err := errors.Join(m.Configure(context.Background(), p.file()), m.Open(context.Background())); err != nil {
		panic(err)
	}
	return m.API
}

// file is a configuration file for what the plane has.
func (p *Plane) file() *spec.All {
	all := &spec.All{Services: []spec.Service{{Name: "export", NFS: &spec.NFS{Export: spec.Export{Path: "/srv"}}}}}
	for _, l := range p.Listeners() {
		all.Listeners = append(all.Listeners, spec.Listener{
			Name: l.Name, Provider: l.Provider, Address: l.Address.String(), Service: l.Service, Limits: l.Limits, Access: l.Access,
		})
	}
	for _, c := range p.Connectors() {
		all.Connectors = append(all.Connectors, spec.Connector{
			Name: c.Name, Listen: c.Address.String(), Provider: c.Provider, Target: c.Target, Limits: spec.ConnectorLimits{Limits: c.Limits}, Access: c.Access,
		})
	}
	return all
}

// service implements manager.Service, without what a manager that is not started does not
// call. Directories in /missing/ are missing.
type service struct {
	manager.Service
	path string
}

func newService(_ context.Context, s *spec.Service) (manager.Service, error) {
	if s.NFS == nil {
		return &service{}, nil
	}
	return &service{path: s.NFS.Path}, nil
}

func (s *service) Open(context.Context) error {
	if strings.HasPrefix(s.path, "/missing/") {
		return fmt.Errorf("mkdir %s: %w", s.path, os.ErrNotExist)
	}
	return nil
}

func (*service) TCP() netip.AddrPort                                 { return netip.AddrPort{} }
func (*service) Sockets() []net.Listener                             { return nil }
func (*service) Registrations(netip.AddrPort) []rpcbind.Registration { return nil }
func (*service) Shutdown(context.Context) error                      { return nil }
func (*service) Close() error                                        { return nil }

// registrar implements manager.Registrar. It registers nothing.
type registrar struct{}

func (registrar) Check([]rpcbind.Registration) error { return nil }
func (registrar) Set([]rpcbind.Registration) error   { return nil }

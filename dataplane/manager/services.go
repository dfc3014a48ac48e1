package manager

import (
	"context"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// services implements kind for services.
type services struct{ *Manager }

func (m services) check(s, file *spec.Service) error {
	kind := s.Kind()
	if kind == "" {
		return &InvalidError{Field: "kind", Text: "exactly one of nfs, echo and forward makes a service"}
	}
	if m.cfg.Kinds[kind] == nil {
		return &UnknownError{What: "kind of service", Name: kind, Known: sortedKeys(m.cfg.Kinds)}
	}
	if s.NFS == nil {
		return nil
	}
	var given []spec.Export
	if file != nil && file.NFS != nil {
		given, _ = file.NFS.All()
	}
	all, keys := s.NFS.All()
	for i := range all {
		isGiven := slices.ContainsFunc(given, func(e spec.Export) bool { return e.Path == all[i].Path })
		if !filepath.IsAbs(all[i].Path) && !isGiven {
			return &InvalidError{Field: keys[i] + "path", Text: fmt.Sprintf("%q must begin with /: rdmad may be started somewhere else next time", all[i].Path)}
		}
	}
	return nil
}

func (m services) make(ctx context.Context, s *spec.Service, _ *Change) (running[spec.Service], error) {
	mk := m.cfg.Kinds[s.Kind()]
	if mk == nil {
		return nil, &UnknownError{What: "kind of service", Name: s.Kind(), Known: sortedKeys(m.cfg.Kinds)}
	}
	r, err := mk(ctx, s)
	if err != nil {
		return nil, err
	}
	return &serving{Service: r, m: m.Manager, name: s.Name, descriptors: s.Descriptors()}, nil
}

func (services) sameBinding(a, b *spec.Service) bool { return reflect.DeepEqual(a, b) }

func (services) mayAmend(*spec.Service) error { return nil } // it has nothing to amend

func (m services) mayGo(name string, c *Change) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	users := slices.DeleteFunc(m.usersLocked(name), func(l string) bool { return c.listeners.concerns(m.listeners.things[l]) })
	if len(users) > 0 {
		return &InUseError{Service: name, Listeners: users}
	}
	return nil
}

func (m services) unused(r running[spec.Service]) {
	var users []*thing[spec.Listener]
	for _, t := range m.listeners.up() {
		if t.running.(*listening).service == r {
			users = append(users, t)
		}
	}
	for _, t := range users {
		<-t.gone
	}
}

func (m services) look() func(*ServiceInfo, running[spec.Service]) {
	return func(i *ServiceInfo, r running[spec.Service]) {
		i.Live.Listeners = m.usersLocked(i.Spec.Name)
		if m.ending.Err() != nil && i.State == StateUp {
			i.State = StateDraining
		}
		if r != nil {
			i.Live.TCP = r.(*serving).TCP()
		}
	}
}

// usersLocked returns the listeners that use a service, or will use it when they are
// restored.
func (m *Manager) usersLocked(service string) (names []string) {
	for _, name := range sortedKeys(m.listeners.things) {
		if m.listeners.things[name].spec.Service == service {
			names = append(names, name)
		}
	}
	return names
}

// serving is a running service.
type serving struct {
	Service
	m           *Manager
	name        string
	descriptors int // for each connection
}

func (*serving) Enter() {}

func (*serving) update(*spec.Service) error { return nil }

func (*serving) EndDenied() int { return 0 }

func (r *serving) drain(ctx context.Context) (dataplane.Removed, error) {
	return dataplane.Removed{}, r.Shutdown(ctx)
}

func (r *serving) close() {
	if err := r.Close(); err != nil {
		r.m.log.Warn("service not closed", "service", r.name, "error", err)
	}
}

func (r *serving) pin(s *spec.Service) {
	if s.NFS == nil {
		return
	}
	nfs := *s.NFS // the running service has the other one
	pinPort(&nfs.TCPListen, r.TCP())
	s.NFS = &nfs
}

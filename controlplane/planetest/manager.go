package planetest

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// NewManager returns a manager over a plane: its services, listeners and connectors exist by
// name, and nothing is bound. It has the service export, which the plane's listeners name.
func NewManager(p *Plane) manager.API {
	services := map[string]manager.ServiceInfo{
		"export": {Spec: spec.Service{Name: "export", NFS: &spec.NFS{Export: spec.Export{Path: "/srv"}}}, State: manager.StateUp},
	}
	api := manager.API{
		Limits: &limits{p: p},
		Services: &set[spec.Service, manager.Serving]{
			what: "service", operators: make(map[string]spec.Service),
			list: func() (out []manager.ServiceInfo) {
				for _, s := range services {
					s.Live.Listeners = p.users(s.Spec.Name)
					out = append(out, s)
				}
				return out
			},
			add: func(s spec.Service) error {
				if n := s.NFS; n != nil && strings.HasPrefix(n.Path, missing) {
					return &manager.OpenError{What: "service", Name: s.Name, Err: fmt.Errorf("mkdir %s: %w", n.Path, os.ErrNotExist)}
				}
				services[s.Name] = manager.ServiceInfo{Spec: s, State: manager.StateUp}
				return nil
			},
			update: func(s spec.Service, _ bool) int {
				services[s.Name] = manager.ServiceInfo{Spec: s, State: manager.StateUp}
				return 0
			},
			remove: func(name string) (int, error) {
				if used := p.users(name); len(used) > 0 {
					return 0, &manager.InUseError{Service: name, Listeners: used}
				}
				delete(services, name)
				return 0, nil
			},
		},
		Listeners: &set[spec.Listener, dataplane.ListenerInfo]{
			what: "listener", operators: make(map[string]spec.Listener),
			list: p.listenerInfos,
			add: func(l spec.Listener) error {
				if l.Provider != "softiwarp" {
					return &manager.UnknownError{What: "provider", Name: l.Provider, Known: []string{"softiwarp"}}
				}
				if _, ok := services[l.Service]; !ok {
					return &manager.NotFoundError{What: "service", Name: l.Service, Known: []string{"export"}}
				}
				p.listen(l.Name, withPort(l.Address), l.Service, l.Limits, l.Access)
				return nil
			},
			update: p.update,
			remove: func(name string) (int, error) { return p.Unlisten(name), nil },
		},
		Connectors: &set[spec.Connector, dataplane.ConnectorInfo]{
			what: "connector", operators: make(map[string]spec.Connector),
			list: p.connectorInfos,
			add: func(c spec.Connector) error {
				if c.Provider != "softiwarp" {
					return &manager.UnknownError{What: "provider", Name: c.Provider, Known: []string{"softiwarp"}}
				}
				p.Connector(dataplane.ConnectorInfo{
					EndpointInfo: dataplane.EndpointInfo{
						Name: c.Name, Provider: c.Provider, Address: netip.MustParseAddrPort(withPort(c.Listen)), State: dataplane.StateUp, Since: Born,
						Limits: c.Limits.Limits, Access: c.Access,
					},
					Target: c.Target,
				})
				return nil
			},
			update: func(c spec.Connector, _ bool) int {
				p.updateConnector(&c)
				return 0
			},
			remove: p.removeConnector,
		},
	}
	api.Export = func() (out manager.Exported) {
		for _, i := range api.Services.List() {
			out.Services = append(out.Services, i.Spec)
		}
		for _, i := range api.Listeners.List() {
			out.Listeners = append(out.Listeners, i.Spec)
		}
		for _, i := range api.Connectors.List() {
			out.Connectors = append(out.Connectors, i.Spec)
		}
		out.Limits, _ = api.Limits.Get()
		return out
	}
	return api
}

// missing is a directory that isn't there.
const missing = "/missing/"

// withPort has 0 pick the port 40000.
func withPort(address string) string {
	if host, ok := strings.CutSuffix(address, ":0"); ok {
		return host + ":40000"
	}
	return address
}

// set is a manager.Set of one kind.
type set[S spec.Named, L any] struct {
	what      string
	operators map[string]S // that operators added, by name
	changed   map[string]S // of the file, before the first change, by name
	list      func() []manager.Info[S, L]
	add       func(S) error
	update    func(s S, endDenied bool) (ended int)
	remove    func(name string) (drained int, err error)
}

// List implements manager.Set.
func (s *set[S, L]) List() []manager.Info[S, L] {
	out := s.list()
	for i := range out {
		if one, ok := s.operators[out[i].Spec.Called()]; ok {
			out[i].Spec, out[i].Origin = one, manager.FromOperator
		} else if file, ok := s.changed[out[i].Spec.Called()]; ok {
			out[i].Changed = slices.Sorted(maps.Keys(spec.Difference(&file, &out[i].Spec)))
		}
	}
	slices.SortFunc(out, func(a, b manager.Info[S, L]) int { return strings.Compare(a.Spec.Called(), b.Spec.Called()) })
	return out
}

func (s *set[S, L]) find(name string) (manager.Info[S, L], error) {
	for _, one := range s.List() {
		if one.Spec.Called() == name {
			return one, nil
		}
	}
	return manager.Info[S, L]{}, &manager.NotFoundError{What: s.what, Name: name}
}

// Add implements manager.Set.
func (s *set[S, L]) Add(_ context.Context, one S) (manager.Info[S, L], error) {
	if err := spec.Check(&one); err != nil {
		return manager.Info[S, L]{}, err
	}
	if _, err := s.find(one.Called()); err == nil {
		return manager.Info[S, L]{}, &manager.ExistsError{What: s.what, Name: one.Called(), State: manager.StateUp}
	}
	if err := s.add(one); err != nil {
		return manager.Info[S, L]{}, err
	}
	s.operators[one.Called()] = one
	return s.find(one.Called())
}

// Update implements manager.Set.
func (s *set[S, L]) Update(_ context.Context, name string, change func(*S), o manager.UpdateOptions) (manager.Info[S, L], int, error) {
	info, err := s.find(name)
	if err != nil {
		return info, 0, err
	}
	_, added := s.operators[name]
	file, before := s.changed[name]
	switch {
	case added && o.Unset != nil:
		return info, 0, &manager.InvalidError{Field: "unset", Text: s.what + " " + name + " is not in the configuration file, so the file has no values for it"}
	case o.Unset != nil && before:
		spec.Copy(&info.Spec, &file, o.Unset)
	case !added && !before:
		if s.changed == nil {
			s.changed = make(map[string]S)
		}
		s.changed[name] = deep(info.Spec)
	}
	change(&info.Spec)
	if err := spec.Check(&info.Spec); err != nil {
		return info, 0, err
	}
	if added {
		s.operators[name] = info.Spec
	}
	ended := s.update(info.Spec, o.EndDenied)
	info, err = s.find(name)
	return info, ended, err
}

// deep returns a specification that shares no section with s.
func deep[S spec.Named](s S) (out S) {
	if err := spec.Decode(spec.Encode(s), &out); err != nil {
		panic(err)
	}
	return out
}

// Remove implements manager.Set.
func (s *set[S, L]) Remove(name string, _ time.Duration) (dataplane.Removed, error) {
	if _, err := s.find(name); err != nil {
		return dataplane.Removed{}, err
	}
	drained, err := s.remove(name)
	if err == nil {
		delete(s.operators, name)
	}
	return dataplane.Removed{Drained: drained}, err
}

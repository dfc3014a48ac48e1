package connector

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
)

// Connectors implements manager.ConnectorAPI.
func (s *Set) Connectors() []manager.ConnectorInfo {
	up := s.cfg.Dataplane.Connectors()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]manager.ConnectorInfo, 0, len(s.all))
	for _, name := range slices.Sorted(maps.Keys(s.all)) {
		m := s.all[name]
		info := manager.ConnectorInfo{Spec: m.spec, Origin: m.origin, Failure: m.failure}
		if i := slices.IndexFunc(up, func(c dataplane.ConnectorInfo) bool { return c.Name == name }); i >= 0 {
			info.ConnectorInfo = up[i]
		} else if m.Connector != nil { // it has just come, or is as good as gone
			continue
		} else {
			info.Name, info.State = name, manager.StateFailed
		}
		out = append(out, info)
	}
	return out
}

// AddConnector implements manager.ConnectorAPI.
func (s *Set) AddConnector(ctx context.Context, spec Spec) (manager.ConnectorInfo, error) {
	if err := check(&spec, s.cfg.Providers); err != nil {
		return manager.ConnectorInfo{}, err
	}
	s.op.Lock()
	defer s.op.Unlock()
	if err := s.free(spec.Name); err != nil {
		return manager.ConnectorInfo{}, err
	}
	m, err := s.bind(ctx, &spec, manager.FromOperator)
	if err != nil {
		return manager.ConnectorInfo{}, err
	}
	m.pinPort()
	if err := s.save(&m.spec, m.spec.Name); err != nil {
		m.Close()
		return manager.ConnectorInfo{}, err
	}
	if err := s.enter(m); err != nil {
		return manager.ConnectorInfo{}, err
	}
	m.log.Info("connector added")
	return s.info(spec.Name)
}

// free says why a name can't be had.
func (s *Set) free(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.all[name]
	switch {
	case s.closed:
		return dataplane.ErrShutdown
	case m == nil || m.Connector == nil:
		return nil
	case m.going:
		return &manager.ExistsError{What: "connector", Name: name, State: manager.StateDraining}
	}
	return &manager.ExistsError{What: "connector", Name: name, State: manager.StateUp}
}

func (s *Set) info(name string) (manager.ConnectorInfo, error) {
	all := s.Connectors()
	i := slices.IndexFunc(all, func(c manager.ConnectorInfo) bool { return c.Spec.Name == name })
	if i < 0 {
		return manager.ConnectorInfo{}, fmt.Errorf("connector %s: %w", name, dataplane.ErrShutdown)
	}
	return all[i], nil
}

// RemoveConnector implements manager.ConnectorAPI.
func (s *Set) RemoveConnector(name string, drain time.Duration) (dataplane.Removed, error) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	m, err := s.leave(name)
	if err != nil {
		return dataplane.Removed{}, err
	}
	return s.end(ctx, m), nil
}

// leave marks a connector as going, and writes that down, unless that was done
// already.
func (s *Set) leave(name string) (*member, error) {
	s.op.Lock()
	defer s.op.Unlock()
	s.mu.Lock()
	m, known, closed := s.all[name], slices.Sorted(maps.Keys(s.all)), s.closed
	s.mu.Unlock()
	switch {
	case closed:
		return nil, dataplane.ErrShutdown
	case m == nil:
		return nil, &manager.NotFoundError{What: "connector", Name: name, Known: known}
	case m.going:
		return m, nil
	}
	if err := s.save(nil, name); err != nil {
		return nil, err
	}
	s.mu.Lock()
	m.going = true
	s.mu.Unlock()
	return m, nil
}

// end drains a connector and takes it out of the set.
func (s *Set) end(ctx context.Context, m *member) (r dataplane.Removed) {
	if m.Connector != nil {
		r = m.Shutdown(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all[m.spec.Name] == m {
		delete(s.all, m.spec.Name)
		s.cfg.Logger.Info("connector removed", "connector", m.spec.Name, "drained", r.Drained, "cut", r.Cut)
	}
	return r
}

// Restore brings back what operators added, and keeps there what they add from
// now on. What can't be brought back is logged and stays on the list, failed;
// the error is about the store alone.
func (s *Set) Restore(ctx context.Context, store manager.ConnectorStore) error {
	s.op.Lock()
	defer s.op.Unlock()
	saved, err := store.Load()
	if err != nil {
		return fmt.Errorf("connectors added before: %w", err)
	}
	s.store = store
	for i := range saved {
		spec := &saved[i]
		if s.find(spec.Name) != nil {
			s.shadowed = append(s.shadowed, *spec)
			s.warnShadowed(spec.Name)
			continue
		}
		err := check(spec, s.cfg.Providers)
		if err == nil {
			err = s.add(ctx, spec, manager.FromOperator)
		}
		if err != nil {
			s.cfg.Logger.Error("connector not brought back", "connector", spec.Name, "error", err)
			s.fail(spec, err)
		}
	}
	return nil
}

// fail keeps a connector that could not be brought back.
func (s *Set) fail(spec *Spec, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all[spec.Name] = &member{spec: *spec, origin: manager.FromOperator, failure: err.Error()}
}

// save writes down what operators added, without the one of a name, but with
// put if it is not nil. A name that is put or dropped is no more shadowed. op is
// held.
func (s *Set) save(put *Spec, name string) error {
	other := func(spec Spec) bool { return spec.Name != name }
	shadowed := slices.DeleteFunc(slices.Clone(s.shadowed), func(spec Spec) bool { return !other(spec) })
	all := slices.Clone(shadowed)
	s.mu.Lock()
	for _, key := range slices.Sorted(maps.Keys(s.all)) {
		if m := s.all[key]; m.origin == manager.FromOperator && !m.going && other(m.spec) {
			all = append(all, m.spec)
		}
	}
	s.mu.Unlock()
	if put != nil {
		all = append(all, *put)
	}
	if s.store != nil {
		if err := s.store.Save(all); err != nil {
			return &manager.StoreError{Err: err}
		}
	}
	s.shadowed = shadowed
	return nil
}

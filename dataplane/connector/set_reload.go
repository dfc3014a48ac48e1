package connector

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rdmad/rdmad/dataplane/manager"
)

// Reload makes the configuration's connectors those of a new version of it,
// which was checked. Those that are the same in both go on untouched, of those
// whose limits or access alone are others the clients, too. The others are
// drained, at most for as long as drain says. Those that operators added stay,
// unless the file has one of the name now. It does all that can be done; the error
// names what could not.
func (s *Set) Reload(ctx context.Context, specs []Spec, drain time.Duration) error {
	s.op.Lock()
	defer s.op.Unlock()
	gone := s.gone(specs)
	s.remove(gone, drain)
	errs := []error{s.shadow(gone)}
	for i := range specs {
		spec := &specs[i]
		if m := s.find(spec.Name); m == nil {
			errs = append(errs, s.add(ctx, spec, manager.FromFile))
		} else if !same(m.spec, *spec) {
			errs = append(errs, m.place.Update(spec.Limits.Limits, spec.Access))
			s.mu.Lock()
			m.spec = *spec
			s.mu.Unlock()
		}
	}
	return errors.Join(errs...)
}

// gone are the connectors that have to go for those of the file.
func (s *Set) gone(specs []Spec) (out []*member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, m := range s.all {
		i := slices.IndexFunc(specs, func(o Spec) bool { return o.Name == name })
		added := m.origin == manager.FromOperator
		switch {
		case i < 0 && !added, i >= 0 && (added || m.going || !sameBinding(m.spec, specs[i])):
			out = append(out, m)
		}
	}
	return out
}

// shadow keeps additions, already removed, whose names the file has now. op
// is held.
func (s *Set) shadow(gone []*member) error {
	n := len(s.shadowed)
	for _, m := range gone {
		if m.origin == manager.FromOperator && !m.going {
			s.shadowed = append(s.shadowed, m.spec)
			s.warnShadowed(m.spec.Name)
		}
	}
	if len(s.shadowed) == n {
		return nil
	}
	return s.save(nil, "")
}

func (s *Set) warnShadowed(name string) {
	s.cfg.Logger.Warn("the configuration file's connector stands in for one of the same name that was added before; "+
		"rename it in the file to have both, or remove it by rdmactl to forget the one added", "connector", name)
}

// remove drains several at once.
func (s *Set) remove(list []*member, drain time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), drain)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range list {
		wg.Go(func() { s.end(ctx, m) })
	}
	wg.Wait()
}

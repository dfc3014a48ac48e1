package manager

import "slices"

// putService adds a service, in the place of one of its name.
func (s *Saved) putService(spec ServiceSpec) {
	s.dropService(spec.Name)
	s.Services = append(s.Services, spec)
}

func (s *Saved) dropService(name string) {
	s.Services = slices.DeleteFunc(s.Services, func(o ServiceSpec) bool { return o.Name == name })
}

// putListener adds a listener, in the place of one of its name.
func (s *Saved) putListener(spec ListenerSpec) {
	s.dropListener(spec.Name)
	s.Listeners = append(s.Listeners, spec)
}

func (s *Saved) dropListener(name string) {
	s.Listeners = slices.DeleteFunc(s.Listeners, func(o ListenerSpec) bool { return o.Name == name })
}

// save writes down what is there with a change to it. A name that is put or
// dropped is no more shadowed. op is held.
func (m *Manager) save(change func(*Saved)) error {
	m.mu.Lock()
	all := Saved{Services: slices.Clone(m.shadowed.Services), Listeners: slices.Clone(m.shadowed.Listeners)}
	shadowed := Saved{Services: slices.Clone(m.shadowed.Services), Listeners: slices.Clone(m.shadowed.Listeners)}
	for _, name := range sortedKeys(m.services) {
		if s := m.services[name]; s.origin == FromOperator && s.state != StateDraining {
			all.putService(s.spec)
		}
	}
	for _, name := range sortedKeys(m.listeners) {
		if l := m.listeners[name]; l.origin == FromOperator && l.state != StateDraining {
			all.putListener(l.spec)
		}
	}
	m.mu.Unlock()
	change(&all)
	if m.store == nil {
		return nil
	}
	if err := m.store.Save(all); err != nil {
		return &StoreError{err}
	}
	// What a change dropped is dropped from there, too.
	shadowed.Services = slices.DeleteFunc(shadowed.Services, func(s ServiceSpec) bool {
		return !slices.ContainsFunc(all.Services, func(o ServiceSpec) bool { return o.Name == s.Name })
	})
	shadowed.Listeners = slices.DeleteFunc(shadowed.Listeners, func(l ListenerSpec) bool {
		return !slices.ContainsFunc(all.Listeners, func(o ListenerSpec) bool { return o.Name == l.Name })
	})
	m.mu.Lock()
	m.shadowed = shadowed
	m.mu.Unlock()
	return nil
}

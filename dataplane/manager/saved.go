package manager

import (
	"slices"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// save writes down what is there with a change to it. A name that is put or
// dropped is no more shadowed. op is held.
func (m *Manager) save(change func(*Saved)) error {
	m.mu.Lock()
	all := Saved{Services: slices.Clone(m.shadowed.Services), Listeners: slices.Clone(m.shadowed.Listeners)}
	shadowed := Saved{Services: slices.Clone(m.shadowed.Services), Listeners: slices.Clone(m.shadowed.Listeners)}
	for _, name := range sortedKeys(m.services) {
		if s := m.services[name]; s.origin == FromOperator && s.state != StateDraining {
			put(&all.Services, s.spec)
		}
	}
	for _, name := range sortedKeys(m.listeners) {
		if l := m.listeners[name]; l.origin == FromOperator && l.state != StateDraining {
			put(&all.Listeners, l.spec)
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
	shadowed.Services = slices.DeleteFunc(shadowed.Services, func(s ServiceSpec) bool { return !has(all.Services, s.Name) })
	shadowed.Listeners = slices.DeleteFunc(shadowed.Listeners, func(l ListenerSpec) bool { return !has(all.Listeners, l.Name) })
	m.mu.Lock()
	m.shadowed = shadowed
	m.mu.Unlock()
	return nil
}

// put adds an item to a list, in the place of one of its name.
func put[T spec.Named](list *[]T, item T) {
	drop(list, item.Called())
	*list = append(*list, item)
}

// drop takes the item of a name out of a list.
func drop[T spec.Named](list *[]T, name string) {
	*list = slices.DeleteFunc(*list, func(o T) bool { return o.Called() == name })
}

// has says whether a list has an item of a name.
func has[T spec.Named](list []T, name string) bool {
	return slices.ContainsFunc(list, func(o T) bool { return o.Called() == name })
}

package manager

import (
	"slices"

	"github.com/rdmad/rdmad/dataplane"
)

// UpdateListener implements API.
func (m *Manager) UpdateListener(name string, u ListenerUpdate) (ListenerInfo, int, error) {
	m.op.Lock()
	defer m.op.Unlock()
	l, err := m.upListener(name)
	if err != nil {
		return ListenerInfo{}, 0, err
	}
	before, now := l.spec, updated(l.spec, &u)
	// Nobody is put out before the change is kept.
	if _, _, err := m.cfg.Dataplane.UpdateListener(name, dataplane.ListenerUpdate{
		Limits: &now.Limits, Allow: &now.Allow, Deny: &now.Deny,
	}); err != nil {
		return ListenerInfo{}, 0, invalid("listener", err)
	}
	if l.origin == FromOperator {
		if err := m.save(func(all *Saved) { put(&all.Listeners, now) }); err != nil {
			m.update(&before, false)
			return ListenerInfo{}, 0, err
		}
	}
	m.mu.Lock()
	l.spec = now
	m.mu.Unlock()
	ended := 0
	if u.EndDenied {
		ended = m.update(&now, true)
	}
	m.log.Info("listener changed", "listener", name, "allow", now.Allow, "deny", now.Deny,
		"connections", now.Limits.Connections, "connections_per_peer", now.Limits.ConnectionsPerPeer,
		"handshakes", now.Limits.Handshakes, "ended", ended)
	return m.listener(name), ended, nil
}

// update puts a checked specification's limits and access in force.
func (m *Manager) update(l *ListenerSpec, end bool) int {
	_, n, err := m.cfg.Dataplane.UpdateListener(l.Name, dataplane.ListenerUpdate{
		Limits: &l.Limits, Allow: &l.Allow, Deny: &l.Deny, EndDenied: end,
	})
	if err != nil {
		m.log.Warn("listener not changed", "listener", l.Name, "error", err)
	}
	return n
}

// upListener finds a listener that can be changed.
func (m *Manager) upListener(name string) (*listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	l := m.listeners[name]
	switch {
	case l == nil:
		return nil, &NotFoundError{What: "listener", Name: name, Known: sortedKeys(m.listeners)}
	case l.state == StateFailed:
		return nil, &FailedError{Name: name, Failure: l.failure}
	case l.state == StateDraining:
		return nil, &FailedError{Name: name, Failure: "it is being removed"}
	}
	return l, nil
}

// updated is a specification with an update's values.
func updated(l ListenerSpec, u *ListenerUpdate) ListenerSpec {
	if u.Limits != nil {
		u.Limits(&l.Limits)
	}
	if u.Allow != nil {
		l.Allow = slices.Clone(*u.Allow)
	}
	if u.Deny != nil {
		l.Deny = slices.Clone(*u.Deny)
	}
	return l
}

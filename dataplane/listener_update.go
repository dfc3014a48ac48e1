package dataplane

import (
	"fmt"
	"net/netip"
)

// ListenerUpdate changes a listener that is up; what is nil stays.
type ListenerUpdate struct {
	Limits      *Limits
	Allow, Deny *[]netip.Prefix
	// EndDenied ends the connections that are up and may no longer connect.
	EndDenied bool
}

// UpdateListener changes limits and access for connections to come, as a
// whole or not at all. It returns how many connections EndDenied ended. The
// error is ErrNotFound, a *LimitError or an *AccessError.
func (d *Dataplane) UpdateListener(name string, u ListenerUpdate) (info ListenerInfo, ended int, err error) {
	if u.Limits != nil {
		if err := u.Limits.Check(); err != nil {
			return info, 0, fmt.Errorf("listener %s: limits.%w", name, err)
		}
	}
	d.mu.Lock()
	l := d.listeners[name]
	if l == nil {
		d.mu.Unlock()
		return info, 0, fmt.Errorf("listener %s: %w", name, ErrNotFound)
	}
	a := *l.access.Load()
	if u.Allow != nil {
		a.Allow = *u.Allow
	}
	if u.Deny != nil {
		a.Deny = *u.Deny
	}
	access, err := a.normal()
	if err != nil {
		d.mu.Unlock()
		return info, 0, fmt.Errorf("listener %s: %w", name, err)
	}
	l.access.Store(access)
	if u.Limits != nil {
		l.setLimitsLocked(*u.Limits)
	}
	d.mu.Unlock()
	if u.EndDenied {
		ended = l.endDenied()
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return l.infoLocked(), ended, nil
}

// setLimitsLocked puts limits in force; they were checked.
func (l *listener) setLimitsLocked(v Limits) {
	l.limits = v.listenerDefaults()
	l.places.SetLimits(l.limits.tableLimits())
	l.handshakes.setLimit(l.limits.Handshakes)
}

// endDenied ends the connections that may no longer connect, and returns how
// many there were. One that comes up meanwhile sees to that itself.
func (l *listener) endDenied() int {
	access := l.access.Load()
	denied := l.d.choose(func(c *conn) bool { return c.l == l && !access.Permits(c.key.Peer) })
	closed := make(chan struct{}, len(denied))
	for _, c := range denied {
		go func() {
			c.end(reasonDenied)
			closed <- struct{}{}
		}()
	}
	for range denied {
		<-closed
	}
	return len(denied)
}

package verbstest

import (
	"context"
	"sync"

	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// Monitored is a provider whose listeners have a health that a test sets.
type Monitored struct {
	rdmacm.Provider
	Listener *MonitoredListener // the last one
}

// Listen implements rdmacm.Provider.
func (m *Monitored) Listen(ctx context.Context, address string) (rdmacm.Listener, error) {
	l, err := m.Provider.Listen(ctx, address)
	if err != nil {
		return nil, err
	}
	m.Listener = &MonitoredListener{Listener: l, changed: make(chan struct{})}
	return m.Listener, nil
}

// MonitoredListener is a listener of Monitored. It implements rdmacm.Monitored.
type MonitoredListener struct {
	rdmacm.Listener
	mu      sync.Mutex
	reason  error
	changed chan struct{}
}

// Health implements rdmacm.Monitored.
func (l *MonitoredListener) Health() (changed <-chan struct{}, reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed, l.reason
}

// SetHealth sets the reason why the listener does not work; nil means that it works.
func (l *MonitoredListener) SetHealth(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reason = reason
	close(l.changed)
	l.changed = make(chan struct{})
}

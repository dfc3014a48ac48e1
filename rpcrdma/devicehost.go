package rpcrdma

import (
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/verbs"
	"maps"
	"slices"
)

// deviceHost holds what a listener's connections on one device share. The listener's mu
// guards its fields.
type deviceHost struct {
	*transport.Host
	users int           // requests and connections
	gone  bool          // the device is gone: there are no new users
	freed chan struct{} // closed when the host is about to be freed
}

// host returns the host for a connection on dev, and counts the connection as a user until
// leave.
func (l *Listener) host(dev verbs.Device) (*deviceHost, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, verbs.ErrClosed
	}
	h := l.hosts[dev]
	if h == nil {
		made, err := transport.NewHost(transport.HostConfig{
			Device: dev, Role: transport.RoleResponder, MemoryLimit: l.cfg.MemoryLimit / int64(len(l.hosts)+1),
			Logger: l.cfg.Logger, DoneTimeout: l.cfg.DoneTimeout,
		})
		if err != nil {
			return nil, err
		}
		h = &deviceHost{Host: made, freed: make(chan struct{})}
		l.hosts[dev] = h
		l.divideMemory()
		if r, ok := dev.(verbs.Removable); ok {
			go l.follow(dev, h, r.Removed())
		}
	}
	h.users++
	return h, nil
}

// divideMemory gives each device its part of MemoryLimit, and returns the limit in force.
func (l *Listener) divideMemory() (inForce int64) {
	for _, h := range l.hosts {
		inForce += h.SetMemoryLimit(l.cfg.MemoryLimit / int64(len(l.hosts)))
	}
	return inForce
}

// follow frees the host of a removed device once its connections have ended.
func (l *Listener) follow(dev verbs.Device, h *deviceHost, removed <-chan struct{}) {
	select {
	case <-h.freed:
		return
	case <-removed:
	}
	l.mu.Lock()
	h.gone = true
	if l.hosts[dev] == h {
		delete(l.hosts, dev)
		l.divideMemory()
	}
	unused := l.unused(h)
	l.mu.Unlock()
	l.free(unused)
}

// leave uncounts a user of a host.
func (l *Listener) leave(h *deviceHost) {
	l.mu.Lock()
	h.users--
	unused := l.unused(h)
	l.mu.Unlock()
	l.free(unused)
}

// unused returns, once, the hosts without users: of the named ones, or of all hosts of a
// closed listener.
func (l *Listener) unused(hosts ...*deviceHost) (free []*deviceHost) {
	if l.closed {
		hosts = slices.AppendSeq(hosts, maps.Values(l.hosts))
	}
	for _, h := range hosts {
		select {
		case <-h.freed:
			continue
		default:
		}
		if h.users == 0 && (l.closed || h.gone) {
			close(h.freed)
			free = append(free, h)
		}
	}
	return free
}

func (l *Listener) free(hosts []*deviceHost) {
	for _, h := range hosts {
		if err := h.Close(); err != nil {
			l.cfg.Logger.Error("registered memory was not freed", "listener", l.Addr(), "error", err)
		}
	}
}

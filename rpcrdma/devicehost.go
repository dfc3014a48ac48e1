package rpcrdma

import (
	"github.com/rdmad/rdmad/rpcrdma/transport"
	"github.com/rdmad/rdmad/verbs"
)

// deviceHost is what a listener's connections on one device share. Its fields
// are guarded by the listener's mu.
type deviceHost struct {
	*transport.Host
	users int           // requests and connections
	gone  bool          // the device is: nobody comes any more
	freed chan struct{} // closed when it is to be freed
}

// host gives the host for a connection on dev, and counts it as a user until
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
			Device: dev, Role: transport.RoleResponder, MemoryLimit: l.cfg.MemoryLimit, Logger: l.cfg.Logger,
			DoneTimeout: l.cfg.DoneTimeout,
		})
		if err != nil {
			return nil, err
		}
		h = &deviceHost{Host: made, freed: make(chan struct{})}
		l.hosts[dev] = h
		if r, ok := dev.(verbs.Removable); ok {
			go l.follow(dev, h, r.Removed())
		}
	}
	h.users++
	return h, nil
}

// follow gives a device back that is gone, once its connections have ended.
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
	}
	unused := l.unused(h)
	l.mu.Unlock()
	l.free(unused)
}

// leave counts a user of a host less.
func (l *Listener) leave(h *deviceHost) {
	l.mu.Lock()
	h.users--
	unused := l.unused(h)
	l.mu.Unlock()
	l.free(unused)
}

// unused gives, once, those hosts that nobody needs any more: of those that are
// named, or of all that a closed listener has.
func (l *Listener) unused(hosts ...*deviceHost) (free []*deviceHost) {
	if l.closed {
		for _, h := range l.hosts {
			hosts = append(hosts, h)
		}
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

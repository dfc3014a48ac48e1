//go:build rdmacore && cgo

package rdmacore

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/verbs/inventory"
)

// lookTime is how long a change that nobody tells of may go unseen, and the
// pause between attempts to listen again.
const lookTime = time.Second

var errNoPort = errors.New("no RDMA device has an active port")

// Health implements rdmacm.Monitored.
func (l *listener) Health() (changed <-chan struct{}, reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed, l.reason
}

func (l *listener) setHealth(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reason == nil && reason == nil || l.reason != nil && reason != nil && l.reason.Error() == reason.Error() {
		return
	}
	l.reason = reason
	close(l.changed)
	l.changed = make(chan struct{})
}

// lookAtListeners has the provider's listeners look at themselves.
func (p *Provider) lookAtListeners() {
	handles.mu.Lock()
	defer handles.mu.Unlock()
	for _, v := range handles.entries {
		if l, ok := v.(*listener); ok && l.p == p {
			l.lookSoon()
		}
	}
}

func (l *listener) lookSoon() {
	select {
	case l.look <- struct{}{}:
	default: // it will
	}
}

// guard looks at the listener's health until it is closed.
func (l *listener) guard() {
	t := time.NewTicker(lookTime)
	defer t.Stop()
	for {
		select {
		case <-l.closing:
			return
		case <-l.look:
		case <-t.C:
		}
		l.setHealth(l.examine())
	}
}

// lose notes that the identifier is of no use any more.
func (l *listener) lose(why error) {
	l.mu.Lock()
	l.lost = why
	l.mu.Unlock()
	l.lookSoon()
}

// examine says why no requests can arrive, after it has tried to listen again
// where that is what it takes. Only guard calls it.
func (l *listener) examine() error {
	anywhere := l.at.Addr().IsUnspecified()
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	if lost == nil && l.dev != nil && l.dev.ctx.isGone() {
		lost = errRemoved // the connection manager may say so later
	}
	if lost == nil && !anywhere && !isLocal(l.at.Addr()) {
		lost = fmt.Errorf("no interface has address %s", l.at.Addr())
	}
	if lost != nil && !l.again() {
		l.mu.Lock()
		l.lost = lost
		l.mu.Unlock()
		return lost
	}
	if anywhere {
		return anyPort(inventory.ClassDir, l.p.config.Tuning.Device, l.p.isDeaf)
	}
	at := l.port
	if l.dev != nil {
		at.device = l.dev.ctx.nameNow()
	}
	if err := at.trouble(inventory.ClassDir); err != nil {
		return err
	}
	if l.dev != nil && l.dev.deaf.Load() {
		return fmt.Errorf("%s %w", at.device, errDeaf)
	}
	return nil
}

// again listens anew. An event that comes meanwhile is of the new identifier.
func (l *listener) again() bool {
	l.stop()
	l.mu.Lock()
	l.lost = nil
	l.mu.Unlock()
	return l.listen(l.at) == nil
}

// isLocal says whether an interface of this machine has an address.
func isLocal(a netip.Addr) bool {
	if a.IsLoopback() {
		return true
	}
	all, err := net.InterfaceAddrs()
	if err != nil {
		return true // nothing is known to be wrong
	}
	for _, have := range all {
		if n, ok := have.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok && ip.Unmap() == a.WithZone("") {
				return true
			}
		}
	}
	return false
}

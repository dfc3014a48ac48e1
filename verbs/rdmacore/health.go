//go:build rdmacore && cgo

package rdmacore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rdmad/rdmad/verbs/inventory"
)

// lookTime is the longest time until a change that causes no event is noticed. It is also
// the pause between attempts to listen again.
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

// lookAtListeners makes the provider's listeners check their health.
func (p *Provider) lookAtListeners() {
	for _, l := range everything(func(l *listener) bool { return l.p == p }) {
		l.lookSoon()
	}
}

func (l *listener) lookSoon() {
	select {
	case l.look <- struct{}{}:
	default: // a check is already due
	}
}

// guard checks the listener's health until the listener is closed.
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

// lose records that the identifier can no longer be used.
func (l *listener) lose(why error) {
	l.mu.Lock()
	l.lost = why
	l.mu.Unlock()
	l.lookSoon()
}

// examine returns why no requests can arrive, or nil. If necessary it first tries to listen
// again. Only guard calls it.
func (l *listener) examine() error {
	anywhere := l.at.Addr().IsUnspecified()
	l.mu.Lock()
	lost := l.lost
	l.mu.Unlock()
	if lost == nil && l.dev != nil && l.dev.ctx.isGone() {
		lost = errRemoved // the connection manager may report this later
	}
	if lost == nil {
		lost = cmp.Or(l.place(), l.socketClosed())
	}
	if lost != nil {
		if !l.again() {
			l.mu.Lock()
			l.lost = lost
			l.mu.Unlock()
			return lost
		}
		l.p.config.Logger.Warn("rdmacore: listens again", "listener", l.at, "reason", lost)
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

// again listens with a new identifier. Later events belong to that identifier.
func (l *listener) again() bool {
	l.stop()
	l.mu.Lock()
	l.lost = nil
	l.mu.Unlock()
	l.settle() // before listening, so that a later move is noticed
	return l.listen(l.at) == nil
}

// place returns why the address can't be used at the listener's device, or nil. The address
// may be gone, or may have moved to the interface of another device.
func (l *listener) place() error {
	a := l.at.Addr()
	if a.IsUnspecified() || a.IsLoopback() {
		return nil
	}
	now, err := interfacesWith(a)
	if err == nil && len(now) == 0 {
		return fmt.Errorf("no interface has address %s", a)
	}
	if err == nil && l.iface != 0 && !slices.Contains(now, l.iface) {
		return errMoved
	}
	return nil // nothing is known to be wrong
}

// settle records the interface that has the address, if there is exactly one.
func (l *listener) settle() {
	l.iface = 0
	if all, err := interfacesWith(l.at.Addr()); err == nil && len(all) == 1 {
		l.iface = all[0]
	}
}

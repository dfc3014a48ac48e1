package dataplane

import (
	"fmt"
	"strings"
	"time"

	"github.com/rdmad/rdmad/rpcrdma"
)

// ChangedFunc says which settings an update touches on a connection; 0 when
// the connection is outside of the update's scope.
type ChangedFunc func(ConnKey) Keys

// ApplySettings makes resolve the source of settings: of connections to
// come, and at once of every connection that is up. It returns an effect for
// each connection that changed names keys for, in the order of ids. With a
// nil changed the resolver is swapped and applied all the same, without
// effects. Calls are applied one after another.
func (d *Dataplane) ApplySettings(resolve Resolver, changed ChangedFunc) []Effect {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.mu.Lock()
	d.resolve = resolve
	d.revision++
	d.mu.Unlock()
	var effects []Effect
	for _, c := range d.snapshot() {
		before, now := c.update()
		if *before != *now {
			d.publish(Event{Type: ConnChanged, Time: time.Now(), Conn: c.info()})
		}
		if changed == nil {
			continue
		}
		if keys := changed(c.key); keys != 0 {
			effects = append(effects, c.effect(keys, now))
		}
	}
	return effects
}

// PreviewSettings says what ApplySettings would answer, and changes nothing.
func (d *Dataplane) PreviewSettings(resolve Resolver, changed ChangedFunc) []Effect {
	var effects []Effect
	for _, c := range d.snapshot() {
		if keys := changed(c.key); keys != 0 {
			effects = append(effects, c.effect(keys, resolve(c.key)))
		}
	}
	return effects
}

// effect is what now does to a connection, for the keys that were changed:
// the weakest outcome, with a reason for each key that has one.
func (c *conn) effect(keys Keys, now *rpcrdma.Settings) Effect {
	e := Effect{ConnID: c.key.ID}
	select {
	case <-c.rc.Done():
		e.Outcome, e.Reason = Unsupported, "the connection has ended"
		return e
	default:
	}
	var reasons []string
	note := func(o Outcome, format string, args ...any) {
		e.Outcome = max(e.Outcome, o)
		reasons = append(reasons, fmt.Sprintf(format, args...))
	}
	info := c.rc.Info()
	if keys.Has(KeyInlineSendMax) && info.PeerReceive < now.InlineSendMax {
		note(Applied, "inline.send_max: the peer receives at most %d bytes", info.PeerReceive)
	}
	if keys.Has(KeyInlineReceiveSize) && now.InlineReceiveSize != c.atConnect.InlineReceiveSize {
		note(PendingReconnect, "inline.receive_size: version 1 fixes it at connect, %d bytes here", c.atConnect.InlineReceiveSize)
	}
	if keys.Has(KeyRemoteInvalidationAccept) && now.RemoteInvalidationAccept != c.atConnect.RemoteInvalidationAccept {
		note(PendingReconnect, "remote_invalidation.accept: version 1 fixes it at connect, %t here", c.atConnect.RemoteInvalidationAccept)
	}
	if keys.Has(KeyRemoteInvalidationUse) && now.RemoteInvalidationUse && !info.PeerRemoteInvalidation {
		note(Unsupported, "remote_invalidation.use: the peer did not offer it")
	}
	e.Reason = strings.Join(reasons, "; ")
	return e
}

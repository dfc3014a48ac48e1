package planetest

import (
	"cmp"
	"fmt"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
)

// ApplySettings implements desired.Dataplane.
func (p *Plane) ApplySettings(resolve dataplane.Resolver, changed dataplane.ChangedFunc) []dataplane.Effect {
	p.mu.Lock()
	p.resolve = resolve
	p.applied++
	p.mu.Unlock()
	return p.effects(changed, func(c *conn) *rpcrdma.Settings {
		before := *c.Settings
		c.Settings = p.settings(c.ConnKey)
		c.enforce()
		if before != *c.Settings {
			p.publish(dataplane.Event{Type: dataplane.ConnChanged, Time: Born, Conn: c.ConnInfo})
		}
		return c.Settings
	})
}

// PreviewSettings implements desired.Dataplane.
func (p *Plane) PreviewSettings(resolve dataplane.Resolver, changed dataplane.ChangedFunc) []dataplane.Effect {
	return p.effects(changed, func(c *conn) *rpcrdma.Settings { return resolve(c.ConnKey) })
}

// effects asks now for the settings of each connection, under p.mu, and says
// what they do.
func (p *Plane) effects(changed dataplane.ChangedFunc, now func(*conn) *rpcrdma.Settings) (out []dataplane.Effect) {
	for _, info := range p.Connections() {
		p.mu.Lock()
		if c := p.conns[info.ID]; c != nil {
			if keys, note := changed(c.ConnKey); keys != 0 {
				e := c.effect(keys, now(c))
				e.Note(note)
				out = append(out, e)
			}
		}
		p.mu.Unlock()
	}
	return out
}

// effect is what version 1 makes of a change.
func (c *conn) effect(keys dataplane.Keys, now *rpcrdma.Settings) dataplane.Effect {
	e := dataplane.Effect{ConnID: c.ID}
	receives := cmp.Or(c.peer.Receive, 4096)
	switch {
	case keys.Has(dataplane.KeyRemoteInvalidationUse) && now.RemoteInvalidationUse && c.peer.NoInvalidation:
		e.Outcome, e.Reason = dataplane.Unsupported, "remote_invalidation.use: the peer did not offer it"
	case keys.Has(dataplane.KeyInlineReceiveSize) && now.InlineReceiveSize != c.InlineReceive:
		e.Outcome = dataplane.PendingReconnect
		e.Reason = fmt.Sprintf("inline.receive_size: version 1 fixes it at connect, %d bytes here", c.InlineReceive)
	case keys.Has(dataplane.KeyInlineSendMax) && now.InlineSendMax > receives:
		e.Reason = fmt.Sprintf("inline.send_max: the peer receives at most %d bytes", receives)
	}
	return e
}

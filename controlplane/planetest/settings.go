package planetest

import (
	"cmp"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// ApplySettings implements desired.Dataplane.
func (p *Plane) ApplySettings(u dataplane.Update) []dataplane.Fact {
	p.mu.Lock()
	p.resolve = u.Resolve
	p.applied++
	p.mu.Unlock()
	return p.facts(&u, func(c *conn) *rpcrdma.Settings {
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
func (p *Plane) PreviewSettings(u dataplane.Update) []dataplane.Fact {
	return p.facts(&u, func(c *conn) *rpcrdma.Settings { return u.Resolve(c.ConnKey) })
}

// facts asks now for the settings of each connection, under p.mu.
func (p *Plane) facts(u *dataplane.Update, now func(*conn) *rpcrdma.Settings) (out []dataplane.Fact) {
	for _, info := range p.Connections() {
		p.mu.Lock()
		if c := p.conns[info.ID]; c != nil && u.Among.Has(c.ConnKey) {
			f := dataplane.Fact{Conn: c.ConnKey, Before: c.Settings, AtConnect: c.atConnect(), Peer: c.facts()}
			f.Now = now(c)
			if u.Keys != 0 {
				out = append(out, f)
			}
		}
		p.mu.Unlock()
	}
	return out
}

// atConnect is what the peer was told, as far as version 1 fixes it.
func (c *conn) atConnect() *rpcrdma.Settings {
	s := rpcrdma.DefaultSettings()
	s.InlineReceiveSize = c.InlineReceive
	return &s
}

// facts is what the peer said, in version 1.
func (c *conn) facts() *settings.Peer {
	receives := cmp.Or(c.peer.Receive, 4096)
	return &settings.Peer{
		Bound: receives, Receive: receives, Invalidation: !c.peer.NoInvalidation,
		Version: 1, Agreed: true, Receives: c.InlineReceive,
	}
}

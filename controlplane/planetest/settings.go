package planetest

import (
	"cmp"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// ApplySettings implements desired.Dataplane.
func (p *Plane) ApplySettings(u dataplane.Update, report func(*dataplane.Fact)) {
	p.mu.Lock()
	p.resolve = u.Resolve
	p.applied++
	p.mu.Unlock()
	p.facts(&u, report, func(c *conn) *rpcrdma.Settings {
		before := *c.Settings
		c.Settings = p.settings(c.ConnKey)
		c.enforce()
		if before != *c.Settings {
			p.subs.Publish(dataplane.Event{Type: dataplane.ConnChanged, Time: Born, Conn: c.ConnInfo})
		}
		return c.Settings
	})
}

// PreviewSettings implements desired.Dataplane.
func (p *Plane) PreviewSettings(u dataplane.Update, report func(*dataplane.Fact)) {
	p.facts(&u, report, func(c *conn) *rpcrdma.Settings { return u.Resolve(c.ConnKey) })
}

// facts asks now for the settings of each connection, under p.mu.
func (p *Plane) facts(u *dataplane.Update, report func(*dataplane.Fact), now func(*conn) *rpcrdma.Settings) {
	for _, info := range p.Connections() {
		p.mu.Lock()
		if c := p.conns[info.ID]; c != nil && u.Among.Has(c.ConnKey) {
			f := dataplane.Fact{Conn: c.ConnKey, Before: c.Settings, AtConnect: c.atConnect(), Peer: c.facts()}
			if f.Now = now(c); report != nil {
				report(&f)
			}
		}
		p.mu.Unlock()
	}
}

// atConnect are the announced values that version 1 fixes at connect.
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

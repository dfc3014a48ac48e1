package dataplane

import (
	"net/netip"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// Update is a change of settings for connections.
type Update struct {
	// Resolve returns the new settings, for connections to come and for those that are up.
	Resolve Resolver
	// Keys are the settings that change. They decide what a fact says of the peer.
	Keys settings.KeySet
	// Among selects the connections that the change concerns. Others stay unchanged.
	Among Among
}

// Among selects connections: those of a listener, those of peers, or one by its id. The zero
// Among selects all.
type Among struct {
	Listener string
	Peers    netip.Prefix
	ID       string
}

// Has reports whether Among selects a connection.
func (a *Among) Has(k ConnKey) bool {
	return (a.Listener == "" || a.Listener == k.Listener) && (a.ID == "" || a.ID == k.ID) &&
		(!a.Peers.IsValid() || a.Peers.Contains(k.Peer.Unmap().WithZone("")))
}

// Fact describes an update on one connection. It is valid during the call that reports it.
// The callee must not change what its pointers refer to.
type Fact struct {
	Conn  ConnKey
	Ended bool // the connection ended before the update
	// Before and Now are the settings before and after the update. AtConnect are the
	// settings that were announced to the peer.
	Before, Now, AtConnect *rpcrdma.Settings
	// Peer is what was known about the peer before the update. It has only the peer's role
	// if no key needs more.
	Peer *settings.Peer
}

// ApplySettings applies an update. It reports a fact for each connection that the update
// concerns, in the order of ids, unless report is nil. Concurrent updates are applied one
// after another, so report must not apply another.
func (d *Dataplane) ApplySettings(u Update, report func(*Fact)) {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.mu.Lock()
	d.resolve = u.Resolve
	d.revision++
	revision, all := d.revision, slices.Clone(d.conns.all)
	d.mu.Unlock()
	u.each(all, report, func(c *conn) (before, now *rpcrdma.Settings) {
		before, now = c.update(u.Resolve, revision)
		if before != now && *before != *now {
			d.changed(c)
		}
		return before, now
	})
}

// PreviewSettings reports what ApplySettings would report. It changes nothing.
func (d *Dataplane) PreviewSettings(u Update, report func(*Fact)) {
	u.each(d.snapshot(), report, func(c *conn) (before, now *rpcrdma.Settings) {
		return c.settings.Load(), u.Resolve(c.key)
	})
}

// each calls take and then report for each connection that the update concerns.
func (u *Update) each(all []*conn, report func(*Fact), take func(*conn) (before, now *rpcrdma.Settings)) {
	var f Fact
	var peer settings.Peer
	ask := report != nil && u.Keys.AskPeers()
	for _, c := range all {
		if !u.Among.Has(c.key) {
			continue
		}
		f = Fact{Conn: c.key, AtConnect: c.atConnect, Ended: c.ended(), Peer: c.role()}
		if ask { // before the update reaches the peer
			info := c.link.Info()
			peer = c.peerFacts(&info)
			f.Peer = &peer
		}
		if f.Before, f.Now = take(c); report != nil {
			report(&f)
		}
	}
}

func (c *conn) ended() bool {
	select {
	case <-c.link.Done():
		return true
	default:
		return false
	}
}

// Peers of which only the role is known.
var client, target = &settings.Peer{}, &settings.Peer{Target: true}

// role returns the peer's role: the peer makes calls or, on a connector's connection,
// answers them.
func (c *conn) role() *settings.Peer {
	if c.rc == nil {
		return target
	}
	return client
}

// peerFacts returns what is known about the peer and the device. i is the connection's
// current state.
func (c *conn) peerFacts(i *rpcrdma.Info) settings.Peer {
	p := settings.Peer{
		Target: c.rc == nil,
		Bound:  i.PeerReceive, Receive: i.PeerReceiveSize, Invalidation: i.PeerRemoteInvalidation,
		Configured: i.Configuration.Spoken, Pads: i.Padding.Received > 0, PadTaken: i.Padding.Taken,
		Callable: i.Backchannel.Open,
		Version:  i.RPCVersion, Agreed: i.VersionAgreed, Receives: i.InlineReceive,
		Told:   toldOf(&i.Characteristics),
		Device: i.Device, NoWindows: i.NoWindows, NoSendInvalidate: i.NoSendInvalidate,
	}
	if p.Configured || p.Told.Spoken { // the last message about the receive size counts
		p.Receive = p.Bound
	}
	if !p.Target && p.Receive > p.Bound {
		p.KeepsReceives, p.Refused = forgetReceiver, c.l.receivers.refused(c.receiver)
	}
	return p
}

func toldOf(c *rpcrdma.Characteristics) settings.Told {
	return settings.Told{
		Spoken: c.Spoken, Lacks: c.Lacks, Asks: c.Asks,
		Invalidation: c.Peer.Invalidation, Receives: c.Own.ReceiveSize, RTR: c.Peer.RTR,
		OwnTargets: len(c.Own.Buffer.Groups) > 0, Targets: len(c.Peer.Buffer.Groups) > 0,
	}
}

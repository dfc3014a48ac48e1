package dataplane

import (
	"net/netip"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// Update is a change of settings on its way to the connections.
type Update struct {
	// Resolve is the source of settings: of connections to come, and at once of
	// those that are up.
	Resolve Resolver
	// Keys are the settings that are changed. Without any there are no facts.
	Keys settings.KeySet
	// Among are the connections that the change is about. All others stay as they
	// are.
	Among Among
}

// Among picks connections: those of a listener, of peers, or one by its id. The
// zero Among picks all.
type Among struct {
	Listener string
	Peers    netip.Prefix
	ID       string
}

// Has says whether a connection is among them.
func (a *Among) Has(k ConnKey) bool {
	return (a.Listener == "" || a.Listener == k.Listener) && (a.ID == "" || a.ID == k.ID) &&
		(!a.Peers.IsValid() || a.Peers.Contains(k.Peer.Unmap().WithZone("")))
}

// Fact is what an update finds and does on a connection. The caller must
// not change what its pointers refer to.
type Fact struct {
	Conn  ConnKey
	Ended bool // before the update
	// Before and Now are the settings around the update, AtConnect those that the
	// peer was told.
	Before, Now, AtConnect *rpcrdma.Settings
	// Peer is what was known of the peer before the update. Of keys that don't ask
	// for it, it has nothing but the peer's role.
	Peer *settings.Peer
}

// ApplySettings carries an update out. It returns a fact for each connection
// that the update is about, in the order of ids. Calls are applied one after
// another.
func (d *Dataplane) ApplySettings(u Update) []Fact {
	d.applying.Lock()
	defer d.applying.Unlock()
	d.mu.Lock()
	d.resolve = u.Resolve
	d.revision++
	revision, all := d.revision, slices.Clone(d.conns.all)
	d.mu.Unlock()
	return u.each(all, func(c *conn) (before, now *rpcrdma.Settings) {
		before, now = c.update(u.Resolve, revision)
		if before != now && *before != *now {
			d.changed(c)
		}
		return before, now
	})
}

// PreviewSettings says what ApplySettings would answer, and changes nothing.
func (d *Dataplane) PreviewSettings(u Update) []Fact {
	return u.each(d.snapshot(), func(c *conn) (before, now *rpcrdma.Settings) {
		return c.settings.Load(), u.Resolve(c.key)
	})
}

// each takes the update to the connections that it is about.
func (u *Update) each(all []*conn, take func(*conn) (before, now *rpcrdma.Settings)) []Fact {
	var facts []Fact
	ask := u.Keys.AskPeers()
	for _, c := range all {
		if !u.Among.Has(c.key) {
			continue
		}
		f := Fact{Conn: c.key, AtConnect: c.atConnect, Ended: c.ended(), Peer: c.role()}
		if ask {
			f.Peer = c.peerFacts() // as they are before the peer hears of it
		}
		f.Before, f.Now = take(c)
		if u.Keys != 0 {
			facts = appendFact(facts, len(all), f)
		}
	}
	return facts
}

// appendFact appends to the facts of some of all connections: mostly one or
// nearly all of them.
func appendFact(facts []Fact, all int, f Fact) []Fact {
	if len(facts) == 1 {
		facts = slices.Grow(facts, all-1)
	}
	return append(facts, f)
}

func (c *conn) ended() bool {
	select {
	case <-c.link.Done():
		return true
	default:
		return false
	}
}

// The peers of which nothing but the role is known.
var client, target = &settings.Peer{}, &settings.Peer{Target: true}

// role is the peer's: it makes calls or, of a connector's connection, answers
// them.
func (c *conn) role() *settings.Peer {
	if c.rc == nil {
		return target
	}
	return client
}

// peerFacts is what is known of the peer and the device.
func (c *conn) peerFacts() *settings.Peer {
	i := c.link.Info()
	p := &settings.Peer{
		Target: c.rc == nil,
		Bound:  i.PeerReceive, Receive: i.PeerReceiveSize, Invalidation: i.PeerRemoteInvalidation,
		Configured: i.Configuration.Spoken, Pads: i.Padding.Received > 0, PadTaken: i.Padding.Taken,
		Callable: i.Backchannel.Open,
		Version:  i.RPCVersion, Agreed: i.VersionAgreed, Receives: i.InlineReceive,
		Told:   toldOf(&i.Characteristics),
		Device: i.Device, NoWindows: i.NoWindows, NoSendInvalidate: i.NoSendInvalidate,
	}
	if p.Configured || p.Told.Spoken { // it told last what it receives
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

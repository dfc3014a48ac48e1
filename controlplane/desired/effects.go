package desired

import (
	"log/slog"
	"slices"
	"strings"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Effect is the outcome of a change on one connection: the weakest outcome of the changed keys.
type Effect struct {
	ConnID  string
	Outcome live.Outcome
	Reason  string
	Ended   bool // the connection had ended: the change was not tried on it
}

// note adds to the reason, unless the text is empty.
func (e *Effect) note(text string) {
	if e.Reason == "" || text == "" {
		e.Reason += text
	} else {
		e.Reason += "; " + text
	}
}

// reach is what a revision is about on the connections.
type reach interface {
	// update says which connections there are to look at, and for which keys.
	update() dataplane.Update
	// on says which keys the revision touches on a connection, with what narrower
	// scopes decide. Without keys there is no effect.
	on(*dataplane.Fact) (keys settings.KeySet, note string)
}

// effects makes the effects of a revision from the facts that apply reports.
func effects(r *revision, u dataplane.Update, apply func(dataplane.Update, func(*dataplane.Fact))) []Effect {
	if u.Keys == 0 {
		apply(u, nil)
		return nil
	}
	var out []Effect
	apply(u, func(f *dataplane.Fact) {
		if keys, note := r.reach.on(f); keys != 0 {
			out = append(out, effect(f, keys, note, r.next.Own(f.Conn.ID)))
		}
	})
	return out
}

// effect is what a revision did to a connection, of which own is what its own
// scope says.
func effect(f *dataplane.Fact, keys settings.KeySet, note string, own *settings.Values) Effect {
	e := Effect{ConnID: f.Conn.ID, Ended: f.Ended}
	if f.Ended {
		e.Outcome, e.Reason = live.Unsupported, "the connection has ended"
	} else {
		e.Outcome, e.Reason = live.Fold(keys, f.Now, f.AtConnect, f.Peer)
	}
	e.note(note)
	if e.Outcome == live.PendingReconnect && own != nil && own.Keys()&keys != 0 {
		e.Outcome = live.Unsupported
		e.note("settings of a connection end with it; set it at listener or peer scope")
	}
	return e
}

// counts says on how many connections a revision had which outcome.
func counts(effects []Effect) slog.Attr {
	var n [3]int
	for _, e := range effects {
		n[e.Outcome]++
	}
	return slog.Group("connections", "applied", n[live.Applied],
		"pending_reconnect", n[live.PendingReconnect], "unsupported", n[live.Unsupported])
}

// difference is a revision of many scopes: it touches where something else is
// in force afterwards.
type difference struct{ step *settings.Step }

func (d difference) update() dataplane.Update {
	var u dataplane.Update
	for _, changed := range d.step.Differences() {
		u.Keys = u.Keys.With(changed.Key)
	}
	return u
}

func (d difference) on(f *dataplane.Fact) (settings.KeySet, string) {
	return live.Changed(f.Before, f.Now), ""
}

// touched is one change at one scope: it touches all connections there.
type touched struct {
	state *settings.State // after the change
	c     *settings.Change
	said  perClass[said]
}

// said is which narrower scopes than the change's decide on a class.
type said struct {
	over []settings.Override
	note string // that says so
}

func (t *touched) update() dataplane.Update {
	u := dataplane.Update{Keys: t.c.Keys()}
	switch s := &t.c.Scope; s.Kind {
	case settings.Listener:
		u.Among.Listener = s.Name
	case settings.Peer:
		u.Among.Peers = s.Prefix
	case settings.Connection:
		u.Among.ID = s.Name
	}
	return u
}

func (t *touched) on(f *dataplane.Fact) (settings.KeySet, string) {
	keys := t.c.Keys()
	if t.c.Scope.Kind == settings.Connection { // none is narrower
		return keys, ""
	}
	class := t.said.get(f.Conn, t.class)
	own := t.state.Own(f.Conn.ID)
	if own == nil || own.Keys()&keys == 0 {
		return keys, class.note
	}
	return keys, t.ownNote(f.Conn.ID, own, class.over)
}

func (t *touched) class(target settings.Target) said {
	over := t.state.Overridden(t.c, target)
	return said{over, note(over)}
}

// ownNote is the note for a connection whose own settings decide on keys.
func (t *touched) ownNote(id string, own *settings.Values, class []settings.Override) string {
	var over []settings.Override
	scope := settings.Scope{Kind: settings.Connection, Name: id}
	for _, k := range t.c.Keys().Keys() {
		if own.Keys().Has(k) {
			over = append(over, settings.Override{Key: k, Scope: scope, Value: own.Format(k)})
		} else if i := slices.IndexFunc(class, func(o settings.Override) bool { return o.Key == k }); i >= 0 {
			over = append(over, class[i])
		}
	}
	return note(over)
}

// note says which keys narrower scopes decide; "" when the change has its way.
func note(over []settings.Override) string {
	parts := make([]string, len(over))
	for i, o := range over {
		parts[i] = o.String()
	}
	return strings.Join(parts, "; ")
}

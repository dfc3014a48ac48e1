package desired

import (
	"slices"
	"strings"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
)

// touched follows one change over the connections.
type touched struct {
	state *settings.State // after the change
	c     *settings.Change
	keys  dataplane.Keys
	said  perClass[said]
}

// said is which narrower scopes than the change's decide on a class.
type said struct {
	over []settings.Override
	note string // that says so
}

func newTouched(state *settings.State, c *settings.Change) *touched {
	t := &touched{state: state, c: c}
	for _, k := range c.Keys().Keys() {
		t.keys |= planeKeys[k]
	}
	return t
}

// planeKeys are the data plane's names for the keys.
var planeKeys = [settings.NumKeys]dataplane.Keys{
	settings.InlineSendMax:            dataplane.KeyInlineSendMax,
	settings.InlineReceiveSize:        dataplane.KeyInlineReceiveSize,
	settings.DDPMinChunk:              dataplane.KeyDDPMinChunk,
	settings.DDPPlacement:             dataplane.KeyDDPPlacement,
	settings.RemoteInvalidationAccept: dataplane.KeyRemoteInvalidationAccept,
	settings.RemoteInvalidationUse:    dataplane.KeyRemoteInvalidationUse,
	settings.CreditsPolicy:            dataplane.KeyCreditsPolicy,
	settings.CreditsMax:               dataplane.KeyCreditsMax,
	settings.CreditsMin:               dataplane.KeyCreditsMin,
	settings.CreditsBackchannel:       dataplane.KeyCreditsBackchannel,
	settings.CreditsWeight:            dataplane.KeyCreditsWeight,
	settings.ExtensionV2:              dataplane.KeyExtensionV2,
	settings.ExtensionMSGP:            dataplane.KeyExtensionMSGP,
	settings.ExtensionReadReplies:     dataplane.KeyExtensionReadReplies,
	settings.ExtensionCCP:             dataplane.KeyExtensionCCP,
	settings.ExtensionBackchannel:     dataplane.KeyExtensionBackchannel,
	settings.ExtensionCharacteristics: dataplane.KeyExtensionCharacteristics,
	settings.ExtensionXmit:            dataplane.KeyExtensionXmit,
	settings.ExtensionContinuation:    dataplane.KeyExtensionContinuation,
	settings.ExtensionSendDDP:         dataplane.KeyExtensionSendDDP,
}

// changed is the data plane's question which keys the change touches on a
// connection, with what narrower scopes decide. The data plane asks from one
// goroutine.
func (t *touched) changed(key dataplane.ConnKey) (dataplane.Keys, string) {
	switch {
	case !t.c.Scope.Covers(settings.Target(key)):
		return 0, ""
	case t.c.Scope.Kind == settings.Connection: // none is narrower
		return t.keys, ""
	}
	class := t.said.get(key, t.class)
	own := t.state.Own(key.ID)
	if own == nil || own.Keys()&t.c.Keys() == 0 {
		return t.keys, class.note
	}
	return t.keys, t.ownNote(key.ID, own, class.over)
}

func (t *touched) class(target settings.Target) said {
	over := t.state.Overridden(t.c, target)
	return said{over, note(over)}
}

// ownNote is the note for a connection whose own settings decide on keys.
func (t *touched) ownNote(id string, own *settings.Values, class []settings.Override) string {
	over := make([]settings.Override, 0, settings.NumKeys)
	scope := settings.Scope{Kind: settings.Connection, Name: id}
	for keys, k := t.c.Keys(), settings.Key(0); k < settings.NumKeys; k++ {
		switch {
		case !keys.Has(k):
		case own.Keys().Has(k):
			over = append(over, settings.Override{Key: k, Scope: scope, Value: own.Format(k)})
		default:
			if i := slices.IndexFunc(class, func(o settings.Override) bool { return o.Key == k }); i >= 0 {
				over = append(over, class[i])
			}
		}
	}
	return note(over)
}

// note says which keys narrower scopes decide; "" when the change has its way.
func note(over []settings.Override) string {
	switch len(over) {
	case 0:
		return ""
	case 1:
		return over[0].String()
	}
	parts := make([]string, len(over))
	for i, o := range over {
		parts[i] = o.String()
	}
	return strings.Join(parts, "; ")
}

// finish says that what waits for a reconnect never comes when the scope ends
// with the connection.
func (t *touched) finish(effects []dataplane.Effect) []dataplane.Effect {
	if t.c.Scope.Kind == settings.Connection {
		for i := range effects {
			endsWithConnection(&effects[i])
		}
	}
	return effects
}

// endsWithConnection says of a change at a connection's scope that what waits
// for a reconnect never comes.
func endsWithConnection(e *dataplane.Effect) {
	if e.Outcome == dataplane.PendingReconnect {
		e.Outcome = dataplane.Unsupported
		e.Note("settings of a connection end with it; set it at listener or peer scope")
	}
}

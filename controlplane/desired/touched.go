package desired

import (
	"fmt"
	"strings"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
)

// touched follows one change over the connections.
type touched struct {
	state *settings.State // after the change
	c     *settings.Change
	keys  dataplane.Keys
	said  perClass[string]
	notes map[string]string // by connection id: narrower scopes that win
}

func newTouched(state *settings.State, c *settings.Change) *touched {
	t := &touched{state: state, c: c, said: make(perClass[string]), notes: make(map[string]string)}
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
}

// changed is the data plane's question which keys the change touches on a
// connection. The data plane asks from one goroutine.
func (t *touched) changed(key dataplane.ConnKey) dataplane.Keys {
	if !t.c.Scope.Covers(settings.Target(key)) {
		return 0
	}
	if note := t.said.get(key, hasOwn(t.state, key.ID), t.note); note != "" {
		t.notes[key.ID] = note
	}
	return t.keys
}

// note says which keys a narrower scope decides; "" when the change has its
// way.
func (t *touched) note(target settings.Target) string {
	over := t.state.Overridden(t.c, target)
	if over == nil {
		return ""
	}
	v := t.state.Resolve(target)
	parts := make([]string, len(over))
	for i, o := range over {
		parts[i] = fmt.Sprintf("%s: stays %s, set at %s", o.Key, v.Format(o.Key), o.Scope)
	}
	return strings.Join(parts, "; ")
}

// finish adds to the effects what only the scopes tell: which keys a narrower
// scope decides, and that what waits for a reconnect never comes when the
// scope ends with the connection.
func (t *touched) finish(effects []dataplane.Effect) []dataplane.Effect {
	for i := range effects {
		e := &effects[i]
		if t.c.Scope.Kind == settings.Connection {
			endsWithConnection(e)
		}
		e.Reason = join(e.Reason, t.notes[e.ConnID])
	}
	return effects
}

// endsWithConnection says of a change at a connection's scope that what waits
// for a reconnect never comes.
func endsWithConnection(e *dataplane.Effect) {
	if e.Outcome == dataplane.PendingReconnect {
		e.Outcome = dataplane.Unsupported
		e.Reason = join(e.Reason, "settings of a connection end with it; set it at listener or peer scope")
	}
}

func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "; " + b
}

package desired

import (
	"net/netip"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
)

// class is what connections have in common that have no settings of their own:
// the same is in force on all of a class. There are many connections and few
// classes, and every change is about all of them.
type class struct {
	listener string
	peer     netip.Addr
}

// perClass is what was worked out for classes.
type perClass[T any] map[class]T

// maxClasses bounds a perClass; beyond, it begins anew.
const maxClasses = 1024

// get is what there is for a connection, by work the first time for its class
// and whenever own is set: when the connection may differ from its class.
func (p perClass[T]) get(key dataplane.ConnKey, own bool, work func(settings.Target) T) T {
	if own {
		return work(settings.Target(key))
	}
	c := class{key.Listener, key.Peer}
	v, ok := p[c]
	if !ok {
		if len(p) == maxClasses {
			clear(p)
		}
		v = work(settings.Target(key))
		p[c] = v
	}
	return v
}

// hasOwn says whether a connection has settings of its own.
func hasOwn(s *settings.State, id string) bool {
	return s.Has(settings.Scope{Kind: settings.Connection, Name: id})
}

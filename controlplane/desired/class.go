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

// perClass is what was worked out for classes. The zero perClass is empty.
type perClass[T any] struct {
	known  map[class]T
	last   class // of which value is; connections of a class come one after another
	value  T
	filled bool
}

// maxClasses bounds a perClass; beyond, it begins anew.
const maxClasses = 1024

// get is what there is for a connection's class, by work the first time.
func (p *perClass[T]) get(key dataplane.ConnKey, work func(settings.Target) T) T {
	c := class{key.Listener, key.Peer}
	if p.filled && c == p.last {
		return p.value
	}
	v, ok := p.known[c]
	if !ok {
		if p.known == nil || len(p.known) == maxClasses {
			p.known = make(map[class]T)
		}
		v = work(settings.Target{Listener: c.listener, Peer: c.peer})
		p.known[c] = v
	}
	p.last, p.value, p.filled = c, v, true
	return v
}

package settings

import (
	"fmt"
	"strings"
)

// Key identifies a live setting. It is the index of its row in the catalogue.
type Key uint8

// Row returns the key's row. Do not change it.
func (k Key) Row() *Row { return &rows[k] }

// String returns the dotted name.
func (k Key) String() string {
	if k < NumKeys {
		return rows[k].Name
	}
	return fmt.Sprintf("Key(%d)", uint8(k))
}

// ParseKey returns the key with this dotted name.
func ParseKey(name string) (Key, bool) {
	for k := range NumKeys {
		if rows[k].Name == name {
			return k, true
		}
	}
	return 0, false
}

// Match returns the keys for a dotted name: one, or with the first part alone ("inline")
// all that begin with it. It returns none if nothing matches.
func Match(name string) KeySet {
	var set KeySet
	for k := range NumKeys {
		if n := rows[k].Name; n == name || strings.HasPrefix(n, name+".") {
			set = set.With(k)
		}
	}
	return set
}

// KeySet is a set of keys.
type KeySet uint32

// With returns the set with k added.
func (s KeySet) With(k Key) KeySet { return s | 1<<k }

// Has reports whether k is in the set.
func (s KeySet) Has(k Key) bool { return s&(1<<k) != 0 }

// Keys returns the keys of the set, in order.
func (s KeySet) Keys() []Key {
	var out []Key
	for k := range NumKeys {
		if s.Has(k) {
			out = append(out, k)
		}
	}
	return out
}

// String returns the names of the keys, separated by commas.
func (s KeySet) String() string { return strings.Join(s.names(), ", ") }

func (s KeySet) names() []string {
	all := s.Keys()
	names := make([]string, len(all)) // [] in JSON, not null
	for i, k := range all {
		names[i] = k.String()
	}
	return names
}

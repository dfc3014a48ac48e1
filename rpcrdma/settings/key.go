package settings

import (
	"fmt"
	"strings"
)

// Key is a live setting: the place of its row in the catalogue.
type Key uint8

// Row is the key's row, which is not to be changed.
func (k Key) Row() *Row { return &rows[k] }

// String is the dotted name.
func (k Key) String() string {
	if k < NumKeys {
		return rows[k].Name
	}
	return fmt.Sprintf("Key(%d)", uint8(k))
}

// ParseKey finds a key by its dotted name.
func ParseKey(name string) (Key, bool) {
	for k := range NumKeys {
		if rows[k].Name == name {
			return k, true
		}
	}
	return 0, false
}

// Match finds the keys that a dotted name stands for: one, or with the first
// part alone ("inline") all that begin with it. It is empty when there is
// none.
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

// With is the set with k.
func (s KeySet) With(k Key) KeySet { return s | 1<<k }

// Has says whether k is in the set.
func (s KeySet) Has(k Key) bool { return s&(1<<k) != 0 }

// Keys lists the set in order.
func (s KeySet) Keys() []Key {
	var out []Key
	for k := range NumKeys {
		if s.Has(k) {
			out = append(out, k)
		}
	}
	return out
}

// String names the keys, comma-separated.
func (s KeySet) String() string {
	all := s.Keys()
	names := make([]string, len(all))
	for i, k := range all {
		names[i] = k.String()
	}
	return strings.Join(names, ", ")
}

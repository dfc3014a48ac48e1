package settings

import live "github.com/rdmad/rdmad/rpcrdma/settings"

type (
	// Key is a row of the catalogue of live settings.
	Key = live.Key
	// KeySet is a set of them.
	KeySet = live.KeySet
	// Values are values for some of them.
	Values = live.Values
	// Violation is what is wrong with one value.
	Violation = live.Violation
	// InvalidError lists violations.
	InvalidError = live.InvalidError
)

// ParseKey finds a key by its dotted name.
func ParseKey(name string) (Key, bool) { return live.ParseKey(name) }

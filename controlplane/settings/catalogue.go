package settings

import live "github.com/rdmad/rdmad/rpcrdma/settings"

// What the catalogue of the live settings defines.
type (
	Key          = live.Key
	KeySet       = live.KeySet
	Values       = live.Values
	Violation    = live.Violation
	InvalidError = live.InvalidError
)

// ParseKey finds a key by its dotted name.
func ParseKey(name string) (Key, bool) { return live.ParseKey(name) }

// ParseValues reads dotted keys and their values. It doesn't look at ranges.
func ParseValues(text map[string]string) (Values, error) { return live.ParseValues(text) }

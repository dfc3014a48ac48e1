package settings

import live "github.com/rdmad/rdmad/rpcrdma/settings"

type (
	// Key is a row of the catalogue of live settings.
	Key = live.Key
	// KeySet is a set of keys.
	KeySet = live.KeySet
	// Values are values of some keys.
	Values = live.Values
	// Violation is a mistake in one value.
	Violation = live.Violation
	// InvalidError lists violations.
	InvalidError = live.InvalidError
)

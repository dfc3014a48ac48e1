// Package settings is the model of the live settings: which keys there are,
// what values they take, at which scopes they may be set, and what is in force
// for a connection that several scopes set.
//
// It has no I/O, no locks and no goroutines. A State is immutable; a change
// makes a new one or an error, never half of either. The caller keeps the
// current State, makes changes one after another and tells the data plane.
package settings

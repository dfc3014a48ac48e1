// Package settings is the model of the live settings: the keys, their values, the scopes at
// which they may be set, and the values in force for a connection that several scopes set.
//
// It has no I/O, no locks and no goroutines. A State is immutable. A change makes a new State
// or returns an error, never a part of either. The caller keeps the current State, makes
// changes one after another, and passes them to the data plane.
package settings

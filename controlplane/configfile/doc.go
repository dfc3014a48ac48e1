// Package configfile reads texts in the form of rdmad's configuration file: YAML, TOML
// and JSON become one tree of nodes with lines, and every mistake is an *Error with
// its place.
//
// It also reads and writes the two sections that the configuration file shares with
// settings export and settings import: "settings" holds the live settings of the
// global scope, "scopes" those of listeners and peers. It writes the other sections
// that a running rdmad exports.
package configfile

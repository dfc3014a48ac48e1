// Package manager adds and removes services and listeners while rdmad runs,
// and changes the limits and the access of listeners that are up. What
// operators add survives a restart; what the configuration file names stays
// the file's.
//
// It knows neither providers nor services by name: its owner brings both,
// with the place where additions are kept.
//
// A caller's duties:
//
//   - Configure for the file's services and listeners, which binds their
//     addresses; Open, which takes their directories; Restore, which brings
//     back what operators added; then Start, after the data plane's;
//   - Close after the data plane's Shutdown and before the providers are
//     closed.
//
// An operation touches no connection but those of the listener or service
// that it names.
package manager

// Package manager adds and removes services, listeners and connectors while rdmad runs, and
// changes the limits and the access of those that are up. Each of the three is a set, and
// its kind implements the differences. Additions of operators survive a restart.
// Elements of the configuration file change only with the file.
//
// It knows neither providers nor services by name. Its owner supplies both, and the place
// where additions are stored.
//
// A caller's duties:
//
//   - Configure with the configuration file, which binds its addresses; Open, which opens
//     its directories; Restore, which restores what operators added; then Start, after
//     the data plane's Start;
//   - Shutdown together with the data plane's; Close after both and before the providers
//     are closed.
//
// An operation affects only connections of the listener or service that it names.
package manager

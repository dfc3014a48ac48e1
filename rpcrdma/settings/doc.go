// Package settings is the catalogue of the live settings. Each has one Row with its name,
// its range, its field of Settings, the text for operators, and the effect of a change on
// connections that are up. The configuration file, the API, the commands, their
// documentation and the effects of a change iterate over the rows. To add a setting, add a
// field to Settings, a row to catalogue.go, and a field of the same name to the API's
// Settings message.
//
// The package has no I/O, no locks and no goroutines.
package settings

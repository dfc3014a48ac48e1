package config

import (
	"iter"
	"reflect"
	"slices"

	"github.com/rdmad/rdmad/controlplane/configfile"
	model "github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/spec"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// fields yields the fields of Config, with the fields of the catalogue in place of the section
// of live settings.
func fields() iter.Seq[spec.Field] {
	return func(yield func(spec.Field) bool) {
		for f := range spec.Of[Config]() {
			if f.Path != configfile.SettingsKey {
				if !yield(f) {
					return
				}
				continue
			}
			for k := range live.NumKeys {
				if !yield(spec.Field{Path: configfile.SettingsKey + "." + k.String(), Type: reflect.TypeFor[configfile.Setting]()}) {
					return
				}
			}
		}
	}
}

// validateTogether checks the live settings of all scopes against each other.
func (c *Config) validateTogether(d document) {
	_, err := model.Builtin().WithFile(c.Layer())
	for _, one := range c.blame(err) {
		d.Fail(one.Key, "%s", one.Msg)
	}
}

// validateScopes checks scopes against the existing listeners.
func (c *Config) validateScopes(d document) {
	var others []string
	for scope := range c.Scopes {
		if scope.Kind != model.Listener || c.Listens(scope.Name) {
			continue
		}
		if others == nil && d.Stored != nil {
			others = d.Stored(c.State.Path)
		}
		if !slices.Contains(others, scope.Name) {
			d.Fail(configfile.ScopesKey+"."+scope.String(), "there is no listener or connector %q", scope.Name)
		}
	}
}

// Listens reports whether the configuration has a listener or a connector of a name. They
// share names and scopes.
func (c *Config) Listens(name string) bool {
	return slices.Contains(c.Names("listeners"), name) || slices.Contains(c.Names("connectors"), name)
}

package configfile

import (
	"maps"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Contents are the live settings that a configuration file or an export gives.
type Contents struct {
	// Values are the values of the global scope.
	Values live.Values
	Scopes map[settings.Scope]live.Values
	// Origins has the place of each value.
	Origins Origins
}

// Read reads the sections "settings" and "scopes" of a configuration file, which may have other
// sections, and the exports of earlier rdmads. Its errors are Errors.
func Read(file string, text []byte) (*Contents, error) {
	root, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	d := NewDocument(file)
	c := &Contents{Origins: d.Origins, Scopes: make(map[settings.Scope]live.Values)}
	sections, _ := d.Entries("", root, d.FileSource, func(string) string { return "" })
	for _, one := range sections {
		switch {
		case one.Empty():
		case one.Name == SettingsKey:
			c.Values, _ = d.Values(one.Key, one.Value, d.FileSource)
		case one.Name == ScopesKey && one.Value.Kind != yaml.SequenceNode:
			c.Scopes, _ = d.Scopes(ScopesKey, one.Value, d.FileSource)
		}
	}
	d.earlier(c, sections)
	if !slices.ContainsFunc(sections, func(e Entry) bool { return e.Name == SettingsKey || e.Name == ScopesKey }) && d.Err() == nil {
		d.Wrong("", Origin{}, "has neither settings nor scopes")
	}
	return c, d.Err()
}

// ReadSettings reads a section "settings" or "scopes". It returns the values that are given, by
// scope.
func (d *Document) ReadSettings(e *Entry) map[settings.Scope]live.Values {
	var all Scopes
	if e.Name == ScopesKey {
		all, _ = d.Scopes(ScopesKey, e.Value, d.FileSource)
	} else {
		v, _ := d.Values(e.Key, e.Value, d.FileSource)
		all = Scopes{{}: v}
	}
	maps.DeleteFunc(all, func(_ settings.Scope, v live.Values) bool { return v.Keys() == 0 })
	return all
}

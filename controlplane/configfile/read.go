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
	// Values are those of the global scope.
	Values live.Values
	Scopes map[settings.Scope]live.Values
	// Origins say where each value stands.
	Origins Origins
}

// Read reads the sections "settings" and "scopes" of a configuration file, which may be
// all that there is. It also reads the exports of earlier rdmads. Its errors are Errors.
func Read(file string, text []byte) (*Contents, error) {
	root, err := Parse(file, text)
	if err != nil {
		return nil, err
	}
	if root == nil {
		root = &yaml.Node{Kind: yaml.MappingNode}
	}
	d := NewDocument(file)
	c := &Contents{Origins: d.Origins, Scopes: make(map[settings.Scope]live.Values)}
	sections, _ := d.Entries("", root, d.FileSource, func(string) string { return "" })
	for _, one := range sections {
		switch {
		case one.Empty():
		case one.Name == SettingsKey:
			c.Values = d.values(one.Key, one.Value)
		case one.Name == ScopesKey && one.Value.Kind != yaml.SequenceNode:
			d.scopes(c, one.Value)
		}
	}
	d.earlier(c, sections)
	if !slices.ContainsFunc(sections, func(e Entry) bool { return e.Name == SettingsKey || e.Name == ScopesKey }) && d.Err() == nil {
		d.Wrong("", Origin{}, "has neither settings nor scopes")
	}
	return c, d.Err()
}

func (d *Document) values(key string, n *yaml.Node) live.Values {
	given, _ := d.Settings(key, n, d.FileSource)
	return taken(given)
}

// taken are settings that were read.
func taken(given map[string]any) (v live.Values) {
	s := make(Settings)
	for group, names := range given {
		s[group] = make(map[string]Setting)
		for name, text := range names.(map[string]any) {
			s[group][name] = Setting(text.(string))
		}
	}
	return s.Values()
}

// ReadSettings reads a section "settings" or "scopes": values by scope, those that are given.
func (d *Document) ReadSettings(e *Entry) map[settings.Scope]live.Values {
	c := &Contents{Scopes: make(map[settings.Scope]live.Values)}
	if e.Name == ScopesKey {
		d.scopes(c, e.Value)
	} else {
		c.Scopes[settings.Scope{}] = d.values(e.Key, e.Value)
	}
	maps.DeleteFunc(c.Scopes, func(_ settings.Scope, v live.Values) bool { return v.Keys() == 0 })
	return c.Scopes
}

func (d *Document) scopes(c *Contents, n *yaml.Node) {
	all, _ := d.Scopes(ScopesKey, n, d.FileSource)
	for _, one := range all {
		given := one.(map[string]any)
		if scope, err := settings.FileScope(given["scope"].(string)); err == nil {
			c.Scopes[scope] = taken(given["settings"].(map[string]any))
		}
	}
}

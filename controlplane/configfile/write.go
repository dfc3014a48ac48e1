package configfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane/spec"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Formats are those that a file may have.
const (
	YAML = "yaml"
	TOML = "toml"
	JSON = "json"
)

// InForce returns the settings of a dump in the form of the file: the values in force at the
// global scope, and the values of narrower scopes.
func InForce(d *settings.Dump) *Contents {
	c := &Contents{Values: d.Base, Scopes: make(map[settings.Scope]live.Values)}
	for _, one := range d.Scopes {
		if one.Scope.Kind == settings.Global {
			c.Values.Overlay(&one.Values)
		} else {
			c.Scopes[one.Scope] = one.Values
		}
	}
	return c
}

// Write writes live settings in a format, as a part of a configuration file. Read reads it.
func (c *Contents) Write(format string) ([]byte, error) {
	return write(format, &sections{tree(&c.Values), c.scopes()})
}

// WriteAll is Write with the other sections that a running rdmad exports. It also writes empty
// sections, because an import leaves missing sections alone.
func (c *Contents) WriteAll(format string, all *spec.All, limits *spec.Limits) ([]byte, error) {
	return write(format, &allSections{
		items(all.Services), items(all.Listeners), items(all.Connectors), spec.Encode(limits), tree(&c.Values), c.scopes(),
	})
}

// items are specifications as the file has them.
func items[S spec.Named](list []S) []map[string]any {
	out := make([]map[string]any, len(list))
	for i := range list {
		out[i] = spec.Encode(&list[i])
	}
	return out
}

func (c *Contents) scopes() map[string]groups {
	out := make(map[string]groups, len(c.Scopes))
	for scope, v := range c.Scopes {
		out[scope.String()] = tree(&v)
	}
	return out
}

func write(format string, doc any) ([]byte, error) {
	switch format {
	case TOML:
		return toml.Marshal(doc)
	case JSON:
		text, err := json.MarshalIndent(doc, "", "  ")
		return append(text, '\n'), err
	}
	var root yaml.Node
	if err := root.Encode(doc); err != nil {
		return nil, err
	}
	plain(&root)
	return EncodeYAML(&root)
}

// EncodeYAML writes a value or a node with an indent of two blanks.
func EncodeYAML(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	err := enc.Encode(v)
	return out.Bytes(), errors.Join(err, enc.Close())
}

// sections are those of live settings.
type sections struct {
	Settings groups            `json:"settings" yaml:"settings" toml:"settings"`
	Scopes   map[string]groups `json:"scopes,omitempty" yaml:"scopes,omitempty" toml:"scopes,omitempty"`
}

// allSections are those that an export has.
type allSections struct {
	Services   []map[string]any  `json:"services" yaml:"services" toml:"services"`
	Listeners  []map[string]any  `json:"listeners" yaml:"listeners" toml:"listeners"`
	Connectors []map[string]any  `json:"connectors" yaml:"connectors" toml:"connectors"`
	Limits     map[string]any    `json:"limits" yaml:"limits" toml:"limits"`
	Settings   groups            `json:"settings" yaml:"settings" toml:"settings"`
	Scopes     map[string]groups `json:"scopes" yaml:"scopes" toml:"scopes"`
}

// groups are values by group and name. Numbers are numbers, switches and choices texts.
type groups map[string]map[string]any

func tree(v *live.Values) groups {
	out := make(groups)
	for _, k := range v.Keys().Keys() {
		group, name, _ := strings.Cut(k.String(), ".")
		if out[group] == nil {
			out[group] = make(map[string]any)
		}
		out[group][name] = v.Value(k)
		if k.Row().Texts() != nil {
			out[group][name] = v.Format(k)
		}
	}
	return out
}

// plain takes the quotes of on and off away, which YAML 1.2 does without. A mapping begins
// with its name.
func plain(n *yaml.Node) {
	n.Style = 0
	for i := 2; n.Kind == yaml.MappingNode && i < len(n.Content); i += 2 {
		if n.Content[i].Value == "name" {
			pair := []*yaml.Node{n.Content[i], n.Content[i+1]}
			n.Content = slices.Insert(slices.Delete(n.Content, i, i+2), 0, pair...)
		}
	}
	for _, inner := range n.Content {
		plain(inner)
	}
}

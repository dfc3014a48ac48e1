package configfile

import (
	"bytes"
	"encoding/json"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"go.yaml.in/yaml/v3"

	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// Formats are those that a file may have.
const (
	YAML = "yaml"
	TOML = "toml"
	JSON = "json"
)

// Write writes live settings in a format, as a part of a configuration file, which Read
// reads too.
func (c *Contents) Write(format string) ([]byte, error) {
	doc := sections{Settings: tree(&c.Values), Scopes: make(map[string]groups, len(c.Scopes))}
	for scope, v := range c.Scopes {
		doc.Scopes[scope.String()] = tree(&v)
	}
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
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&root); err != nil {
		return nil, err
	}
	return out.Bytes(), enc.Close()
}

// sections are those that are written.
type sections struct {
	Settings groups            `json:"settings" yaml:"settings" toml:"settings"`
	Scopes   map[string]groups `json:"scopes,omitempty" yaml:"scopes,omitempty" toml:"scopes,omitempty"`
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

// plain takes the quotes of on and off away, which YAML 1.2 does without.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, inner := range n.Content {
		plain(inner)
	}
}

package configfile

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// earlier reads the sections of an export of an earlier rdmad. "base" has the values below
// the global scope. "scopes" is a list; each item has a scope and its settings. The settings
// of the global scope stand over base.
func (d *Document) earlier(c *Contents, sections []Entry) {
	var global live.Values
	for _, one := range sections {
		switch {
		case one.Name == "base" && !one.Empty():
			c.Values = d.earlierValues(one.Key, one.Value)
		case one.Name == ScopesKey && one.Value.Kind == yaml.SequenceNode:
			for i, item := range one.Value.Content {
				scope, v := d.earlierScope(fmt.Sprintf("%s[%d]", one.Key, i), item)
				if scope.Kind == settings.Global {
					global = v
				} else {
					c.Scopes[scope] = v
				}
			}
		}
	}
	c.Values.Overlay(&global)
}

func (d *Document) earlierScope(key string, item *yaml.Node) (scope settings.Scope, v live.Values) {
	fields, _ := d.Entries(key, item, d.FileSource, OneOf([]string{"scope", "settings"}))
	for _, one := range fields {
		switch {
		case one.Name == "settings" && !one.Empty():
			v = d.earlierValues(one.Key, one.Value)
		case one.Name == "scope" && one.Value.Value != (settings.Scope{}).String():
			var err error
			if scope, err = settings.FileScope(one.Value.Value); err != nil {
				d.Wrong(one.Key, one.At, reason(err))
			}
		}
	}
	return scope, v
}

// earlierValues reads settings as the API's messages name them: choices are in capitals,
// and "required" is a switch beside v2.
func (d *Document) earlierValues(key string, n *yaml.Node) live.Values {
	var groups []*yaml.Node
	if n.Kind == yaml.MappingNode {
		groups = n.Content
	}
	for i := 1; i < len(groups); i += 2 {
		if groups[i].Kind == yaml.MappingNode {
			groups[i].Content = today(groups[i-1].Value, groups[i].Content)
		}
	}
	v, _ := d.Values(key, n, d.FileSource)
	return v
}

// today are the names and values of a group as the configuration file has them.
func today(group string, content []*yaml.Node) (out []*yaml.Node) {
	required := false
	for i := 0; i+1 < len(content); i += 2 {
		name, value := content[i], content[i+1]
		if group+"."+name.Value == "extensions.v2_required" {
			required = value.Value == "true"
			continue
		}
		if k, ok := live.ParseKey(group + "." + name.Value); ok && k.Row().Kind == live.Choice {
			value.Value = strings.ToLower(value.Value)
		}
		out = append(out, name, value)
	}
	for i := 0; required && i+1 < len(out); i += 2 {
		if out[i].Value == "v2" {
			out[i+1].Tag, out[i+1].Value = "!!str", "required"
		}
	}
	return out
}

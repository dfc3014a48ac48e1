package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// document is a configuration while it is being read.
type document struct {
	file    string
	origins Origins
	errs    Errors
	// misspelt are the keys that are unknown.
	misspelt map[string]bool
}

// source says where a node of a text comes from.
type source func(n *yaml.Node) Origin

// fileSource is that of the file's nodes.
func (d *document) fileSource(n *yaml.Node) Origin { return Origin{File: d.file, Line: n.Line} }

// read holds a node against the type of its values and turns it into values:
// maps, lists, and what spec.Parse gives. Wrong values are noted and left
// out. Keys without a value are left out, except for the kinds of a service.
func (d *document) read(key string, n *yaml.Node, f spec.Field, from source) (value any, ok bool) {
	t := f.Type
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.AliasNode:
		d.wrong(key, from(n), "an alias; write the value out")
		return nil, false
	case t == reflect.TypeFor[setting]():
		return d.readSetting(key, n, from)
	case isGroup(t):
		return d.readMapping(key, n, t, from)
	case t.Kind() == reflect.Slice:
		return d.readList(key, n, t.Elem(), from)
	}
	return d.readValue(key, n, f, from)
}

func isGroup(t reflect.Type) bool {
	f := spec.Field{Type: reflect.PointerTo(t)}
	return t.Kind() == reflect.Struct && f.Section() || t.Kind() == reflect.Map
}

func (d *document) readMapping(key string, n *yaml.Node, t reflect.Type, from source) (map[string]any, bool) {
	if n.Kind != yaml.MappingNode {
		d.wrong(key, from(n), "must be a mapping of keys to values")
		return nil, false
	}
	keys := keysOf(key, t)
	out := map[string]any{}
	for i := 0; i < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at := strings.TrimPrefix(key+"."+name.Value, ".")
		if first, ok := d.origins[at]; ok {
			d.wrong(at, from(name), fmt.Sprintf("already given in line %d", first.Line))
			continue
		}
		d.origins[at] = from(name)
		j := slices.IndexFunc(keys, func(f spec.Field) bool { return f.Path == name.Value })
		if j < 0 {
			d.misspelt[at] = true
			d.wrong(at, from(name), unknownKey(key, name.Value, keys))
			continue
		}
		if value.Kind == yaml.ScalarNode && value.Tag == "!!null" {
			if !keys[j].Section() {
				continue
			}
			value = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: name.Line} // as "echo:" alone
		}
		if v, ok := d.read(at, value, keys[j], from); ok {
			out[name.Value] = v
		}
	}
	return out, true
}

// keysOf are the keys of one mapping, whose own key is given.
func keysOf(key string, t reflect.Type) (keys []spec.Field) {
	if t.Kind() == reflect.Map {
		return settingKeys(key)
	}
	for i := range t.NumField() {
		sf := t.Field(i)
		switch key := sf.Tag.Get("mapstructure"); key {
		case "-", "":
		case ",squash":
			keys = append(keys, keysOf(key, sf.Type)...)
		default:
			keys = append(keys, spec.FieldOf(sf))
		}
	}
	return keys
}

func unknownKey(section, name string, keys []spec.Field) string {
	if text := elsewhere[name]; text != "" && strings.HasSuffix(section, "].limits") {
		return text
	}
	if len(keys) == 0 {
		return "unknown key; there are none here"
	}
	names := make([]string, len(keys))
	for i, f := range keys {
		names[i] = f.Path
	}
	slices.Sort(names)
	return "unknown key; known here: " + strings.Join(names, ", ")
}

func (d *document) readList(key string, n *yaml.Node, t reflect.Type, from source) ([]any, bool) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(key, from(n), "must be a list")
		return nil, false
	}
	out := []any{}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", key, i)
		d.origins[at] = from(item)
		if v, ok := d.read(at, item, spec.Field{Type: t}, from); ok {
			out = append(out, v)
		}
	}
	return out, true
}

// readValue reads a value and holds it against its range.
func (d *document) readValue(key string, n *yaml.Node, f spec.Field, from source) (any, bool) {
	want := spec.Expected(f.Type)
	if n.Kind != yaml.ScalarNode {
		d.wrong(key, from(n), "must be "+want.Name)
		return nil, false
	}
	if want.Tags != nil && !slices.Contains(want.Tags, n.Tag) {
		d.wrong(key, from(n), fmt.Sprintf("must be %s, not %q", want.Name, n.Value))
		return nil, false
	}
	v, err := spec.Parse(f.Type, n.Value)
	if err != nil {
		d.wrong(key, from(n), err.Error())
		return nil, false
	}
	if text := f.Problem(v); text != "" {
		d.wrong(key, from(n), text)
		return nil, false
	}
	return v.Interface(), true
}

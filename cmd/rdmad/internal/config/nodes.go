package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// document is a configuration while it is being read.
type document struct {
	*configfile.Document
	Options
	blank map[string]bool // keys without a value
}

func newDocument(file string, o Options) document {
	return document{configfile.NewDocument(file), o, make(map[string]bool)}
}

// read checks a node against the type of its values and converts it into values: maps, lists,
// and the results of spec.Parse. Wrong values are reported and omitted. Keys without a value
// are omitted too, except for the kinds of a service.
func (d document) read(key string, n *yaml.Node, f spec.Field, from configfile.Source) (value any, ok bool) {
	t := f.Type
	if t.Kind() == reflect.Pointer && t.Elem().Kind() == reflect.Struct {
		t = t.Elem()
	}
	switch {
	case n.Kind == yaml.AliasNode:
		d.Wrong(key, from(n), "an alias; write the value out")
		return nil, false
	case t == reflect.TypeFor[configfile.Setting]():
		return d.Setting(key, strings.TrimPrefix(key, configfile.SettingsKey+"."), n, from)
	case t == reflect.TypeFor[configfile.Settings]():
		return d.Settings(key, n, from)
	case t == reflect.TypeFor[configfile.Scopes]():
		return d.Scopes(key, n, from)
	case t == labelsType:
		return d.labels(key, n, from)
	case isGroup(t):
		return d.readMapping(key, n, t, from)
	case t.Kind() == reflect.Slice:
		return d.readList(key, n, t.Elem(), from)
	}
	return d.readValue(key, n, f, from)
}

func isGroup(t reflect.Type) bool {
	f := spec.Field{Type: reflect.PointerTo(t)}
	return t.Kind() == reflect.Struct && f.Section()
}

func (d document) readMapping(key string, n *yaml.Node, t reflect.Type, from configfile.Source) (map[string]any, bool) {
	keys := keysOf(t)
	field := func(name string) int {
		return slices.IndexFunc(keys, func(f spec.Field) bool { return f.Path == name })
	}
	all, ok := d.Entries(key, n, from, func(name string) string {
		if field(name) >= 0 {
			return ""
		}
		return unknownKey(key, name, keys)
	})
	out := map[string]any{}
	for _, e := range all {
		f := keys[field(e.Name)]
		if e.Empty() {
			if !f.Section() {
				d.blank[e.Key] = true
				continue
			}
			e.Value = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: e.At.Line} // as "echo:" alone
		}
		if v, ok := d.read(e.Key, e.Value, f, from); ok {
			out[e.Name] = v
		}
	}
	return out, ok
}

// keysOf returns the keys of one mapping.
func keysOf(t reflect.Type) (keys []spec.Field) {
	for i := range t.NumField() {
		sf := t.Field(i)
		switch sf.Tag.Get("mapstructure") {
		case "-", "":
		case ",squash":
			keys = append(keys, keysOf(sf.Type)...)
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
	names := make([]string, len(keys))
	for i, f := range keys {
		names[i] = f.Path
	}
	return configfile.Unknown(names)
}

func (d document) readList(key string, n *yaml.Node, t reflect.Type, from configfile.Source) ([]any, bool) {
	if n.Kind != yaml.SequenceNode {
		d.Wrong(key, from(n), "must be a list")
		return nil, false
	}
	out := []any{}
	for i, item := range n.Content {
		at := fmt.Sprintf("%s[%d]", key, i)
		d.Origins[at] = from(item)
		if v, ok := d.read(at, item, spec.Field{Type: t}, from); ok {
			out = append(out, v)
		}
	}
	return out, true
}

// readValue parses a value and checks its range.
func (d document) readValue(key string, n *yaml.Node, f spec.Field, from configfile.Source) (any, bool) {
	want := spec.Expected(f.Type)
	if n.Kind != yaml.ScalarNode {
		d.Wrong(key, from(n), "must be "+want.Name)
		return nil, false
	}
	if want.Tags != nil && !slices.Contains(want.Tags, n.Tag) {
		d.Wrong(key, from(n), fmt.Sprintf("must be %s, not %q", want.Name, n.Value))
		return nil, false
	}
	v, err := spec.Parse(f.Type, n.Value)
	if err != nil {
		d.Wrong(key, from(n), err.Error())
		return nil, false
	}
	if text := f.Problem(v); text != "" {
		d.Wrong(key, from(n), text)
		return nil, false
	}
	return v.Interface(), true
}

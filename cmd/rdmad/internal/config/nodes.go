package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// document is a file's YAML while it is being checked.
type document struct {
	file  string
	lines map[string]int // of each key, by its path
}

// fail makes an error at a key's line, or at that of the nearest key around
// it.
func (d *document) fail(key, format string, args ...any) *Error {
	e := &Error{File: d.file, Key: key, Msg: fmt.Sprintf(format, args...)}
	for at := key; at != ""; {
		if line, ok := d.lines[at]; ok {
			e.Line = line
			break
		}
		at = at[:max(strings.LastIndexAny(at, ".["), 0)]
	}
	return e
}

// given says whether the file has the key.
func (d *document) given(key string) bool {
	_, ok := d.lines[key]
	return ok
}

// check holds the nodes against the types of Config: unknown and repeated
// keys, wrong types. It writes on and off as YAML 1.2's booleans, and drops
// keys without a value, which count as absent, but for the kind of a service.
func (d *document) check(root *yaml.Node) error {
	if root == nil || root.Tag == "!!null" {
		return nil
	}
	return d.node("", root, reflect.TypeFor[Config]())
}

func (d *document) node(key string, n *yaml.Node, t reflect.Type) error {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.AliasNode {
		return d.wrong(key, n, "an alias; write the value out")
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.mapping(key, n, func(name string) (reflect.Type, error) {
			return fieldType(t, name)
		})
	case reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			return d.wrong(key, n, "must be a list")
		}
		for i, item := range n.Content {
			at := fmt.Sprintf("%s[%d]", key, i)
			d.lines[at] = item.Line
			if err := d.node(at, item, t.Elem()); err != nil {
				return err
			}
		}
		return nil
	}
	if t == reflect.TypeFor[Version2]() {
		return d.version2(key, n)
	}
	return d.scalar(key, n, t.Kind())
}

// version2 writes on and off of extensions.v2 as texts, whatever YAML takes
// them for.
func (d *document) version2(key string, n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		if v, ok := versions2[strings.ToLower(n.Value)]; ok {
			n.Tag, n.Value, n.Style = "!!str", string(v), yaml.DoubleQuotedStyle
			return nil
		}
	}
	return d.wrong(key, n, fmt.Sprintf("must be off, on or required, not %q", n.Value))
}

// mapping checks each key's value against the type that typeOf gives.
func (d *document) mapping(key string, n *yaml.Node, typeOf func(name string) (reflect.Type, error)) error {
	if n.Kind != yaml.MappingNode {
		return d.wrong(key, n, "must be a mapping of keys to values")
	}
	kept := n.Content[:0:0]
	for i := 0; i < len(n.Content); i += 2 {
		name, value := n.Content[i], n.Content[i+1]
		at := name.Value
		if key != "" {
			at = key + "." + at
		}
		if first, ok := d.lines[at]; ok {
			return d.wrong(at, name, fmt.Sprintf("already given in line %d", first))
		}
		d.lines[at] = name.Line
		t, err := typeOf(name.Value)
		if err != nil {
			return d.wrong(at, name, err.Error())
		}
		if value.Kind == yaml.ScalarNode && value.Tag == "!!null" {
			if t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
				continue
			}
			value = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Line: name.Line} // as "echo:" alone
		}
		if err := d.node(at, value, t); err != nil {
			return err
		}
		kept = append(kept, name, value)
	}
	n.Content = kept
	return nil
}

// fieldType is the type of the field for a key, or an error that names the
// keys there are.
func fieldType(t reflect.Type, name string) (reflect.Type, error) {
	var names []string
	for i := range t.NumField() {
		f := t.Field(i)
		tag := f.Tag.Get("mapstructure")
		if tag == "-" {
			continue
		}
		if tag == name {
			return f.Type, nil
		}
		names = append(names, tag)
	}
	if len(names) == 0 {
		return nil, errors.New("unknown key; there are none here")
	}
	slices.Sort(names)
	return nil, fmt.Errorf("unknown key; known here: %s", strings.Join(names, ", "))
}

func (d *document) scalar(key string, n *yaml.Node, want reflect.Kind) error {
	if n.Kind != yaml.ScalarNode {
		return d.wrong(key, n, "must be "+kindName(want))
	}
	switch want {
	case reflect.String:
		if n.Tag == "!!str" {
			return nil
		}
	case reflect.Int64:
		var v int64
		if n.Tag == "!!int" && n.Decode(&v) == nil {
			return nil
		}
	case reflect.Bool:
		switch strings.ToLower(n.Value) {
		case "true", "on", "yes":
			n.Tag, n.Value, n.Style = "!!bool", "true", 0
			return nil
		case "false", "off", "no":
			n.Tag, n.Value, n.Style = "!!bool", "false", 0
			return nil
		}
	}
	return d.wrong(key, n, fmt.Sprintf("must be %s, not %q", kindName(want), n.Value))
}

func kindName(k reflect.Kind) string {
	switch k {
	case reflect.Int64:
		return "a whole number"
	case reflect.Bool:
		return "on or off"
	}
	return "a text"
}

func (d *document) wrong(key string, n *yaml.Node, msg string) *Error {
	return &Error{File: d.file, Line: n.Line, Key: key, Msg: msg}
}

package configfile

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/settings"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// The sections of live settings.
const (
	SettingsKey = "settings"
	ScopesKey   = "scopes"
)

// Settings are the live settings of a text, by group and name.
type Settings map[string]map[string]Setting

// Setting is the text of a value, which the setting's row of the catalogue parses.
type Setting string

// Scopes are the live settings of a text for listeners and peers. viper sees them as one
// value, because it folds the case of keys that are texts.
type Scopes map[settings.Scope]live.Values

// Values returns the settings that are given. They must have been checked.
func (s Settings) Values() (v live.Values) {
	for group, names := range s {
		for name, text := range names {
			if k, ok := live.ParseKey(group + "." + name); ok {
				value, _ := k.Row().Parse(string(text))
				v.Set(k, value)
			}
		}
	}
	return v
}

// Initial returns the settings to start with, and those that the configuration gives. All others
// are defaults.
func (s Settings) Initial() (all live.Settings, given live.KeySet) {
	all = live.Default()
	in, file := live.Of(&all), s.Values()
	in.Overlay(&file)
	return *in.Settings(), file.Keys()
}

// namesIn are the names of the catalogue's groups, or the names within one.
func namesIn(group string) (names []string) {
	for k := range live.NumKeys {
		first, name, _ := strings.Cut(k.String(), ".")
		if group == "" {
			name = first
		} else if first != group {
			continue
		}
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// OneOf returns the mistake of a key that is not one of some, for Entries.
func OneOf(known []string) func(string) string {
	return func(name string) string {
		if slices.Contains(known, name) {
			return ""
		}
		return Unknown(known)
	}
}

// Values reads groups of live settings. It notes wrong ones and leaves them out, as well as
// those without a value.
func (d *Document) Values(key string, n *yaml.Node, from Source) (v live.Values, ok bool) {
	all, ok := d.Entries(key, n, from, OneOf(namesIn("")))
	for _, group := range all {
		if group.Empty() {
			continue
		}
		names, _ := d.Entries(group.Key, group.Value, from, OneOf(namesIn(group.Name)))
		for _, one := range names {
			if one.Empty() {
				continue
			}
			k, _ := live.ParseKey(group.Name + "." + one.Name)
			if value, ok := d.setting(one.Key, k, one.Value, from); ok {
				v.Set(k, value)
			}
		}
	}
	return v, ok
}

// Settings is Values as viper takes them: each value as its row writes it, by group and name.
func (d *Document) Settings(key string, n *yaml.Node, from Source) (map[string]any, bool) {
	v, ok := d.Values(key, n, from)
	out := make(map[string]any)
	for _, k := range v.Keys().Keys() {
		group, name, _ := strings.Cut(k.String(), ".")
		if out[group] == nil {
			out[group] = make(map[string]any)
		}
		out[group].(map[string]any)[name] = v.Format(k)
	}
	return out, ok
}

// Setting returns one setting in the form that viper takes.
func (d *Document) Setting(key, name string, n *yaml.Node, from Source) (text string, ok bool) {
	k, _ := live.ParseKey(name)
	value, ok := d.setting(key, k, n, from)
	return k.Row().Format(value), ok
}

// setting checks a value against the row of a setting, whatever its type in YAML is.
func (d *Document) setting(key string, k live.Key, n *yaml.Node, from Source) (value uint32, ok bool) {
	if n.Kind != yaml.ScalarNode {
		d.Wrong(key, from(n), "must be one value, not a list or a mapping")
		return 0, false
	}
	row, text := k.Row(), n.Value
	var number int64
	if n.Tag == "!!int" && n.Decode(&number) == nil {
		text = strconv.FormatInt(number, 10)
	}
	value, err := row.Parse(text)
	wrong := row.OutOfRange(value)
	if err != nil {
		wrong = row.Wrong(n.Value)
	}
	if wrong != "" {
		d.Wrong(key, from(n), wrong)
		return 0, false
	}
	return value, true
}

// Scopes reads the settings of listeners and peers.
func (d *Document) Scopes(key string, n *yaml.Node, from Source) (Scopes, bool) {
	all, ok := d.Entries(key, n, from, func(string) string { return "" })
	out, seen := make(Scopes), make(map[settings.Scope]Origin)
	for _, one := range all {
		scope, err := settings.FileScope(one.Name)
		if err != nil {
			d.Wrong(one.Key, one.At, reason(err))
			continue
		}
		if first, twice := seen[scope]; twice {
			d.Wrong(one.Key, one.At, fmt.Sprintf("the same scope as in line %d", first.Line))
			continue
		}
		seen[scope] = one.At
		at := key + "." + scope.String() // peer/192.0.2.7 is peer/192.0.2.7/32
		d.Origins[at] = one.At
		if one.Empty() {
			continue
		}
		if v, ok := d.Values(at, one.Value, from); ok {
			out[scope] = v
		}
	}
	if len(out) > settings.MaxScopes {
		d.Wrong(key, from(n), fmt.Sprintf("no more than %d scopes", settings.MaxScopes))
	}
	return out, ok
}

// reason is what an error says of a scope.
func reason(err error) string {
	if invalid, ok := errors.AsType[*settings.InvalidError](err); ok {
		return invalid.Violations[0].Text
	}
	return err.Error()
}

package config

import (
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/dataplane/spec"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// settingsKey is the section of the live settings. Its keys are the rows of the
// catalogue.
const settingsKey = "settings"

// Settings are the live settings that the configuration gives, by group and
// name, each as text that its row of the catalogue parses.
type Settings map[string]settingGroup

type (
	settingGroup map[string]setting
	setting      string
)

// fields are those of Config, with the catalogue's in place of the section of
// live settings.
func fields() iter.Seq[spec.Field] {
	return func(yield func(spec.Field) bool) {
		for f := range spec.Of[Config]() {
			if f.Path != settingsKey {
				if !yield(f) {
					return
				}
				continue
			}
			for k := range live.NumKeys {
				if !yield(spec.Field{Path: settingsKey + "." + k.String(), Type: reflect.TypeFor[setting]()}) {
					return
				}
			}
		}
	}
}

// settingKeys are the groups of the section of live settings, or the names of one
// of the groups.
func settingKeys(key string) (keys []spec.Field) {
	group, within := strings.CutPrefix(key, settingsKey+".")
	for k := range live.NumKeys {
		f := spec.Field{Type: reflect.TypeFor[settingGroup]()}
		first, name, _ := strings.Cut(k.String(), ".")
		if f.Path = first; within {
			f = spec.Field{Path: name, Type: reflect.TypeFor[setting]()}
		}
		if (!within || first == group) && !slices.ContainsFunc(keys, func(other spec.Field) bool { return other.Path == f.Path }) {
			keys = append(keys, f)
		}
	}
	return keys
}

// readSetting holds a value against its row and writes it as the row does, whatever
// YAML takes it for.
func (d *document) readSetting(key string, n *yaml.Node, from source) (any, bool) {
	if n.Kind != yaml.ScalarNode {
		d.wrong(key, from(n), "must be one value, not a list or a mapping")
		return nil, false
	}
	k, _ := live.ParseKey(strings.TrimPrefix(key, settingsKey+"."))
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
		d.wrong(key, from(n), wrong)
		return nil, false
	}
	return row.Format(value), true
}

// values are those that the configuration gives. They were checked.
func (s Settings) values() (v live.Values) {
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

// Initial are the settings to start with, and the dotted names of those that
// the configuration gives; all others are defaults.
func (s Settings) Initial() (all live.Settings, given []string) {
	all = live.Default()
	in, file := live.Of(&all), s.values()
	in.Overlay(&file)
	for _, k := range file.Keys().Keys() {
		given = append(given, k.String())
	}
	return *in.Settings(), given
}

// settingLines are the lines of the live settings that the file gives.
func (d *document) settingLines(s Settings) map[string]int {
	lines := make(map[string]int)
	v := s.values()
	for _, k := range v.Keys().Keys() {
		lines[k.String()] = d.origins.Of(settingsKey + "." + k.String()).Line
	}
	return lines
}

// validate holds settings that bound each other against each other.
func (s Settings) validate(d *document, _ Options) {
	all, _ := s.Initial()
	v := live.Of(&all)
	for k := range live.NumKeys {
		for _, bound := range k.Row().AtMost {
			if value, most := v.Value(k), v.Value(bound); value > most {
				d.fail(settingsKey+"."+k.String(), "%d is above %s, %d", value, bound, most)
			}
		}
	}
}

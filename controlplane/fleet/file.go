package fleet

import (
	"fmt"
	"maps"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/settings"
)

// keys are those at the top of a policy's file.
var keys = []string{"name", "priority", "scopes", "selector", "settings"}

// ReadPolicy reads a policy's file: YAML, or TOML or JSON by its name. Settings and scopes are
// those of the configuration file. Its errors are configfile.Errors.
func ReadPolicy(file string, text []byte) (*Policy, error) {
	root, err := configfile.Parse(file, text)
	if err != nil {
		return nil, err
	}
	d := reader{configfile.NewDocument(file)}
	p := &Policy{Settings: make(map[settings.Scope]settings.Values)}
	sections, _ := d.Entries("", root, d.FileSource, configfile.OneOf(keys))
	for _, one := range sections {
		if !one.Empty() {
			d.section(p, &one)
		}
	}
	if p.Name == "" {
		d.Fail("name", "is missing")
	}
	return p, d.Err()
}

type reader struct{ *configfile.Document }

func (d reader) section(p *Policy, e *configfile.Entry) {
	switch e.Name {
	case "name":
		p.Name, _ = d.text(e.Key, e.Value)
		if text := NameProblem(p.Name); text != "" && p.Name != "" {
			d.Wrong(e.Key, e.At, text)
		}
	case "priority":
		n, err := strconv.ParseInt(e.Value.Value, 10, 32)
		if err != nil || e.Value.Kind != yaml.ScalarNode {
			d.Wrong(e.Key, e.At, "must be a whole number")
		}
		p.Priority = int32(n)
	case "selector":
		d.selector(p, e)
	case configfile.SettingsKey, configfile.ScopesKey:
		maps.Copy(p.Settings, d.ReadSettings(e))
	}
}

// selector reads a mapping of labels to values, or a list of terms.
func (d reader) selector(p *Policy, e *configfile.Entry) {
	if e.Value.Kind == yaml.SequenceNode {
		for i, item := range e.Value.Content {
			key := fmt.Sprintf("%s[%d]", e.Key, i)
			if text, ok := d.text(key, item); ok {
				d.term(p, key, item, text)
			}
		}
	} else {
		labels, _ := d.Entries(e.Key, e.Value, d.FileSource, func(string) string { return "" })
		for _, one := range labels {
			if text, ok := d.text(one.Key, one.Value); ok {
				d.term(p, one.Key, one.Value, one.Name+"="+text)
			}
		}
	}
	if len(p.Selector) > MaxTerms {
		d.Wrong(e.Key, e.At, fmt.Sprintf("no more than %d terms", MaxTerms))
	}
}

func (d reader) term(p *Policy, key string, n *yaml.Node, text string) {
	t, err := ParseTerm(text)
	if err != nil {
		d.Wrong(key, d.FileSource(n), err.Error())
		return
	}
	p.Selector = append(p.Selector, t)
}

func (d reader) text(key string, n *yaml.Node) (string, bool) {
	if n.Kind != yaml.ScalarNode {
		d.Wrong(key, d.FileSource(n), "must be one value, not a list or a mapping")
		return "", false
	}
	return n.Value, true
}

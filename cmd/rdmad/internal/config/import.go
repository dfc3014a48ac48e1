package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// imported are the sections that an import replaces.
var imported = []string{"services", "listeners", "connectors", "limits", configfile.SettingsKey, configfile.ScopesKey}

// InForce is the configuration of a running rdmad.
type InForce struct {
	*Config // of its configuration file, environment and flags
	spec.All
	Limits Limits
}

// Import checks a file that is to replace the configuration in force. A missing section means
// the present one. Sections that an import can't replace must have the values in force. The
// environment has no effect. The errors are Errors.
func Import(file string, text []byte, o Options, now *InForce) (c *Config, has func(section string) bool, err error) {
	root, err := configfile.Parse(file, text)
	if err != nil {
		return nil, nil, err
	}
	given := sections(root)
	has = func(section string) bool { return slices.Contains(given, section) }
	d := newDocument(file, o)
	if !slices.ContainsFunc(imported, has) {
		d.Wrong("", Origin{}, "nothing to import: "+strings.Join(imported, ", ")+" are missing or empty")
		return nil, nil, d.Err()
	}
	v := viper.NewWithOptions(viper.KeyDelimiter("::"))
	if err := d.readFile(v, root); err != nil {
		return nil, nil, err
	}
	if c, err = d.decode(v); err != nil {
		return nil, nil, err
	}
	c.File, c.Origins = file, d.Origins
	c.refuseOthers(d, now.Config)
	c.Control, c.Metrics, c.State, c.Console, c.Providers = now.Control, now.Metrics, now.State, now.Console, now.Providers
	c.Tracing, c.SlowCall, c.Fleet = now.Tracing, now.SlowCall, now.Fleet
	c.leave(has, now)
	for _, check := range []func(document){
		c.validateServices, c.validateListeners, c.validateLimits, c.validateConnectors, c.validateClashes,
	} {
		check(d)
	}
	c.validateScopes(d)
	if has(configfile.SettingsKey) { // else they go together with what is in force, or not
		c.validateTogether(d)
	}
	return c, has, c.blameSections(d.Err(), has)
}

// sections returns the names of the sections that have a value.
func sections(root *yaml.Node) (names []string) {
	if root.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		if root.Content[i+1].Tag != "!!null" {
			names = append(names, root.Content[i].Value)
		}
	}
	return names
}

// leave takes the sections that the file does not have from what is in force.
func (c *Config) leave(has func(string) bool, now *InForce) {
	if !has("services") {
		c.Services = now.Services
	}
	if !has("listeners") {
		c.Listeners = now.Listeners
	}
	if !has("connectors") {
		c.Connectors = now.Connectors
	}
	if !has("limits") {
		c.Limits = now.Limits
	}
}

// refuseOthers refuses values of sections that an import can't replace, unless they are those
// of now.
func (c *Config) refuseOthers(d document, now *Config) {
	a, b := reflect.ValueOf(c), reflect.ValueOf(now)
	for f := range fields() {
		section, _, _ := strings.Cut(f.Path, ".")
		if slices.Contains(imported, section) || f.Section() || !d.Given(f.Path) || d.blank[f.Path] {
			continue
		}
		x, y := f.In(a, false), f.In(b, false)
		if x.IsValid() && y.IsValid() && reflect.DeepEqual(x.Interface(), y.Interface()) {
			continue
		}
		d.Wrong(f.Path, d.Origins.Of(f.Path), fmt.Sprintf(
			"an import does not change %s, which belongs to this machine; %s. Leave it out, or change it in rdmad's own configuration file", section, isNow(f, y)))
	}
}

func isNow(f spec.Field, v reflect.Value) string {
	switch {
	case !v.IsValid() || v.IsZero() && f.Default() == "":
		return "it is not set here"
	case f.Items() || v.Kind() == reflect.Map:
		return "it differs here"
	}
	return "it is " + spec.Text(v) + " here"
}

// blameSections says of mistakes in sections that the file does not have why they are mistakes.
func (c *Config) blameSections(err error, has func(string) bool) error {
	all, ok := errors.AsType[configfile.Errors](err)
	if !ok {
		return err
	}
	for _, e := range all {
		section, rest, _ := strings.Cut(e.Key, "[")
		if e.Line > 0 || !slices.Contains(imported, section) || has(section) {
			continue
		}
		i, field, _ := strings.Cut(rest, "]")
		if at, err := strconv.Atoi(i); err == nil {
			list := c.Names(section)
			e.Key = strings.TrimSuffix(section, "s") + " " + list[at] + field
		}
		e.Msg += "; it stays, because the file has no section " + section
	}
	return all
}

// Names returns the names of the elements of a list: services, listeners or connectors.
func (c *Config) Names(list string) []string {
	switch list {
	case "services":
		return NamesOf(c.Services)
	case "listeners":
		return NamesOf(c.Listeners)
	case "connectors":
		return NamesOf(c.Connectors)
	}
	return nil
}

// NamesOf returns the names of some elements.
func NamesOf[S spec.Named](all []S) []string {
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Called()
	}
	return names
}

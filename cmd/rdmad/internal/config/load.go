package config

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-viper/mapstructure/v2"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Options are inputs that the loader can't find itself.
type Options struct {
	// Providers are the providers of this build; nil accepts any.
	Providers []string
	// Absent are the providers that this build lacks, and how to get them.
	Absent map[string]string
	// Set are the values of the command line, KEY=VALUE each. They have priority over all
	// others.
	Set []string
	// Stored returns the names of the listeners and connectors that operators added, from
	// a state directory; nil means that there are none.
	Stored func(state string) []string
	// Export replaces the path of the nfs service, which must be the only one. With "" the
	// path stays.
	Export string
}

// Load reads and checks a configuration: the defaults, a file unless its name is "", the
// environment and the flags. Its errors are Errors, except for a file that can't be read. With
// Errors it may also return the valid part, for further checks only.
func Load(file string, o Options) (*Config, error) {
	if file == "" {
		return load("", nil, o, os.LookupEnv)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	c, err := load(file, text, o, os.LookupEnv)
	if c != nil {
		c.Text = text
	}
	return c, err
}

// Parse checks only the text of a file, without the environment.
func Parse(file string, text []byte, o Options) (*Config, error) {
	return load(file, text, o, nothing)
}

// nothing is an environment without variables.
func nothing(string) (string, bool) { return "", false }

func load(file string, text []byte, o Options, env func(string) (string, bool)) (*Config, error) {
	root, err := configfile.Parse(file, text)
	if err != nil {
		return nil, err
	}
	d := newDocument(file, o)
	v := viper.NewWithOptions(viper.KeyDelimiter("::"))
	d.defaults(v)
	if err := d.readFile(v, root); err != nil {
		return nil, err
	}
	d.environment(v, env)
	d.flags(v, o.Set)
	c, err := d.decode(v)
	if err != nil {
		return nil, err
	}
	c.File, c.Origins = file, d.Origins
	c.Unknown = unknownVariables(env)
	c.fill()
	c.setExport(d, o.Export)
	c.validate(d)
	for key := range d.blank { // they have their defaults
		delete(c.Origins, key)
	}
	return c, d.Err()
}

// viperKey converts a dotted name for viper.
func viperKey(path string) string { return strings.ReplaceAll(path, ".", "::") }

// defaults sets the defaults in viper. Defaults in optional sections and in lists apply only
// where the section is given.
func (d document) defaults(v *viper.Viper) {
	optional := ""
	for f := range spec.Of[Config]() {
		switch {
		case f.Section():
			optional = f.Path + "."
		case f.Default() == "" || optional != "" && strings.HasPrefix(f.Path, optional):
		default:
			value, err := spec.Parse(f.Type, f.Default())
			if err != nil {
				panic("config: default of " + f.Path)
			}
			v.SetDefault(viperKey(f.Path), value.Interface())
		}
	}
}

// readFile gives the values of the file to viper.
func (d document) readFile(v *viper.Viper, root *yaml.Node) error {
	if root.Tag == "!!null" {
		return nil
	}
	values, ok := d.readMapping("", root, reflect.TypeFor[Config](), d.FileSource)
	if !ok {
		return d.Err()
	}
	return v.MergeConfigMap(values)
}

// flags gives the values of the command line to viper. Later ones have priority.
func (d document) flags(v *viper.Viper, set []string) {
	for _, one := range set {
		key, text, ok := strings.Cut(one, "=")
		at := Origin{Flag: "--set " + key}
		f, known := find(key)
		switch {
		case !ok:
			d.Wrong("", Origin{Flag: "--set"}, "write KEY=VALUE, not "+one)
		case !known:
			d.Wrong("", at, "there is no such key")
		default:
			if value, ok := d.outside(f, text, at); ok {
				v.Set(viperKey(key), value)
			}
		}
	}
}

// find returns the field that --set or the environment can give under a key.
func find(key string) (found spec.Field, ok bool) {
	for f := range fields() {
		if f.Path == key && !f.Section() {
			return f, true
		}
	}
	return found, false
}

// outside parses a value that does not come from the file. A list is written in YAML or JSON.
func (d document) outside(f spec.Field, text string, at Origin) (any, bool) {
	if !d.isText(f.Path, text, at) {
		return nil, false
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	if tags := spec.Expected(f.Type).Tags; !isYAML(f.Type) && tags != nil {
		n.Tag = tags[0]
	} else if isYAML(f.Type) {
		var err error
		if n, err = configfile.ParseYAML("", []byte(text)); err != nil || n == nil {
			what := "a list"
			if f.Type.Kind() == reflect.Map {
				what = "a mapping"
			}
			d.Wrong(f.Path, at, "is not "+what+" in YAML or JSON")
			return nil, false
		}
	}
	d.Origins.Replace(f.Path, at)
	delete(d.blank, f.Path)
	return d.read(f.Path, n, f, func(*yaml.Node) Origin { return at })
}

// isText reports whether a value that does not come from the file is UTF-8, as a file must be. The
// control plane can't show others.
func (d document) isText(path, value string, at Origin) bool {
	if !utf8.ValidString(value) {
		d.Wrong(path, at, "is not text in UTF-8")
		return false
	}
	return true
}

// isYAML reports whether values of a type are written in YAML or JSON outside of the file: lists
// and scopes.
func isYAML(t reflect.Type) bool { return t.Kind() == reflect.Slice || t.Kind() == reflect.Map }

// decode converts viper's values into a Config.
func (d document) decode(v *viper.Viper) (*Config, error) {
	c := new(Config)
	err := v.UnmarshalExact(c, func(o *mapstructure.DecoderConfig) {
		o.WeaklyTypedInput = false
		o.DecodeHook = nil // all values have their types
	})
	if err != nil {
		// The file was checked against the same types before, so the two checks differ.
		return nil, errors.Join(d.Err(), &Error{Origin: Origin{File: d.File}, Msg: OneLine(err)})
	}
	return c, nil
}

// setExport replaces the directory of the file by that of the command line.
func (c *Config) setExport(d document, dir string) {
	at := Origin{Flag: "--export"}
	if dir == "" || !d.isText("", dir, at) {
		return
	}
	var nfs []int
	for i, s := range c.Services {
		if s.NFS != nil {
			nfs = append(nfs, i)
		}
	}
	if len(nfs) != 1 {
		d.Wrong("", at, fmt.Sprintf("%s has %d nfs services, not one; set their path there", c.File, len(nfs)))
		return
	}
	c.Services[nfs[0]].NFS.Path = dir
	d.Origins[index("services", nfs[0])+".nfs.path"] = at
}

// Keys returns the dotted names that the environment and --set can give.
func Keys() (all []string) {
	for f := range fields() {
		if !f.Section() {
			all = append(all, f.Path)
		}
	}
	slices.Sort(all)
	return all
}

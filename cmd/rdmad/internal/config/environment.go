package config

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/dataplane/spec"
)

// prefix is that of the environment variables.
const prefix = "RDMAD_"

// Variable is the environment variable of a key.
func Variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// environment binds the variables of all keys. An empty one counts as not set.
func (d *document) environment(v *viper.Viper, env func(string) (string, bool)) {
	for f := range fields() {
		if f.Section() {
			continue
		}
		name := Variable(f.Path)
		text, ok := env(name)
		if !ok || text == "" {
			continue
		}
		// viper reads the variable itself. Mistakes in it are found here.
		if _, ok := d.outside(f, text, Origin{Env: name}); ok {
			v.MustBindEnv(viperKey(f.Path), name)
		}
	}
}

// fromText has viper decode the text of an environment variable, which was
// read without an error before.
func (d *document) fromText(from, to reflect.Type, value any) (any, error) {
	text, ok := value.(string)
	if from.Kind() != reflect.String || !ok || to.Kind() == reflect.String || to.Kind() == reflect.Map || to.Kind() == reflect.Interface {
		return value, nil
	}
	if to.Kind() == reflect.Slice {
		n, err := parseYAML("", []byte(text))
		if err != nil {
			return nil, err
		}
		scratch := &document{origins: Origins{}, misspelt: map[string]bool{}}
		list, _ := scratch.read("", n, spec.Field{Type: to}, func(*yaml.Node) Origin { return Origin{} })
		return list, nil
	}
	v, err := spec.Parse(to, text)
	if err != nil {
		return nil, err
	}
	return v.Interface(), nil
}

// FlagVariables are those of flags that are no keys.
var FlagVariables = []string{prefix + "CONFIG", prefix + "EXPORT", prefix + "LOG_LEVEL", prefix + "LOG_FORMAT", prefix + "DRAIN_TIMEOUT"}

// unknownVariables are those with the prefix that name no key. They may belong to
// somebody else, so that they are no error.
func unknownVariables(env func(string) (string, bool)) (unknown []string) {
	known := slices.Clone(FlagVariables)
	for _, key := range Keys() {
		known = append(known, Variable(key))
	}
	for _, one := range os.Environ() {
		name, _, _ := strings.Cut(one, "=")
		if _, set := env(name); set && strings.HasPrefix(name, prefix) && !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	return unknown
}

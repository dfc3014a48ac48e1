package config

import (
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// prefix is the prefix of the environment variables.
const prefix = "RDMAD_"

// Variable returns the environment variable of a key.
func Variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// environment binds the variables of all keys. An empty variable counts as not set.
func (d document) environment(v *viper.Viper, env func(string) (string, bool)) {
	for f := range fields() {
		if f.Section() {
			continue
		}
		name := Variable(f.Path)
		text, ok := env(name)
		if !ok || text == "" {
			continue
		}
		// viper reads the variable itself. This call finds mistakes in it.
		if _, ok := d.outside(f, text, Origin{Env: name}); ok {
			v.MustBindEnv(viperKey(f.Path), name)
		}
	}
}

// fromText is a decode hook for the text of an environment variable. The text was checked
// before.
func (d document) fromText(from, to reflect.Type, value any) (any, error) {
	text, ok := value.(string)
	if from.Kind() != reflect.String || !ok || to.Kind() == reflect.String || to.Kind() == reflect.Interface {
		return value, nil
	}
	if isYAML(to) {
		n, err := configfile.ParseYAML("", []byte(text))
		if err != nil {
			return nil, err
		}
		scratch := newDocument("", Options{})
		list, _ := scratch.read("", n, spec.Field{Type: to}, func(*yaml.Node) Origin { return Origin{} })
		return list, nil
	}
	v, err := spec.Parse(to, text)
	if err != nil {
		return nil, err
	}
	return v.Interface(), nil
}

// FlagVariables are the variables of flags that are not keys.
var FlagVariables = []string{prefix + "CONFIG", prefix + "EXPORT", prefix + "LOG_LEVEL", prefix + "LOG_FORMAT", prefix + "DRAIN_TIMEOUT"}

// unknownVariables returns the variables with the prefix that name no key. They are not
// errors, because they may belong to other software.
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

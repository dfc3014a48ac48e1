package config

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/viper"
)

// prefix is the prefix of the environment variables.
const prefix = "RDMAD_"

// Variable returns the environment variable of a key.
func Variable(key string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// environment gives the values of the variables to viper. An empty variable counts as not set.
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
		if value, ok := d.outside(f, text, Origin{Env: name}); ok {
			v.Set(viperKey(f.Path), value)
		}
	}
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

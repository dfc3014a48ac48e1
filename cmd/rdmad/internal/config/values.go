package config

import (
	"cmp"
	"reflect"
	"strconv"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/dataplane/spec"
)

// Value is an effective value and its origin.
type Value struct {
	Key, Value string
	From       Origin
}

// Values returns all effective values except the live settings, in the order of the keys. It
// omits keys that have neither a value nor a default.
func (c *Config) Values() (all []Value) {
	c.values(&all, reflect.ValueOf(c), "")
	return all
}

func (c *Config) values(all *[]Value, root reflect.Value, prefix string) {
	for f := range spec.Fields(root.Type().Elem()) {
		v, key := f.In(root, false), prefix+f.Path
		switch {
		case !v.IsValid() || key == configfile.SettingsKey || key == configfile.ScopesKey:
		case f.Section():
			if v.Elem().IsValid() && v.Elem().NumField() == 0 {
				*all = append(*all, Value{key, "{}", c.Origins.Of(key)})
			}
		case f.Items():
			for i := range v.Len() {
				c.values(all, v.Index(i).Addr(), index(key, i)+".")
			}
		default:
			_, given := c.Origins[key]
			text := spec.Text(v)
			if v.IsZero() && !given {
				text = cmp.Or(f.Default(), planeDefaults[key])
			}
			if text != "" || given {
				*all = append(*all, Value{key, text, c.origin(key, given)})
			}
		}
	}
}

// origin returns the origin of a key. A key that is omitted in a given section has its
// default.
func (c *Config) origin(key string, given bool) Origin {
	if around := c.Origins.Of(key); given || around.Env != "" || around.Flag != "" {
		return around
	}
	return Origin{}
}

// planeDefaults are the defaults of the data plane's limits.
var planeDefaults = map[string]string{
	"limits.connections":              strconv.Itoa(dataplane.DefaultMaxConnections),
	"limits.connections_per_peer":     strconv.Itoa(dataplane.DefaultConnectionsPerPeer),
	"limits.handshakes":               strconv.Itoa(dataplane.DefaultMaxHandshakes),
	"limits.tcp_connections":          strconv.Itoa(rpctcp.DefaultConnections),
	"limits.tcp_connections_per_peer": strconv.Itoa(rpctcp.DefaultConnectionsPerPeer),
	"limits.tcp_idle":                 spec.Text(reflect.ValueOf(rpctcp.DefaultIdle)),
	"limits.memory":                   spec.Size(dataplane.DefaultMemory).String(),
}

package config

import (
	"cmp"
	"reflect"
	"strconv"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/metrics"
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
	c.values(&all, reflect.ValueOf(c), "", c.defaults())
	return all
}

func (c *Config) values(all *[]Value, root reflect.Value, prefix string, defaults map[string]string) {
	for f := range spec.Fields(root.Type().Elem()) {
		v, key := f.In(root, false), prefix+f.Path
		switch {
		case key == configfile.SettingsKey || key == configfile.ScopesKey:
		case !v.IsValid(): // in a section that is not given
			if text := defaults[key]; text != "" {
				*all = append(*all, Value{Key: key, Value: text})
			}
		case f.Section():
			if v.Elem().IsValid() && v.Elem().NumField() == 0 {
				*all = append(*all, Value{key, "{}", c.Origins.Of(key)})
			}
		case f.Items():
			for i := range v.Len() {
				c.values(all, v.Index(i).Addr(), index(key, i)+".", defaults)
			}
		default:
			_, given := c.Origins[key]
			text := spec.Text(v)
			if v.IsZero() && !given {
				text = cmp.Or(f.Default(), defaults[key])
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

// defaults returns the defaults that the types of the configuration do not have: those of limits, and of the rate of
// requests. Some depend on other limits.
func (c *Config) defaults() map[string]string {
	rate := auth.DefaultRate()
	all := map[string]string{
		"control.rate.requests_per_second": strconv.FormatFloat(rate.PerSecond, 'f', -1, 64),
		"control.rate.burst":               strconv.Itoa(rate.Burst),
		"limits.connections":               strconv.Itoa(dataplane.DefaultMaxConnections),
		"limits.connections_per_peer":      strconv.Itoa(dataplane.DefaultConnectionsPerPeer),
		"limits.handshakes":                strconv.Itoa(dataplane.DefaultMaxHandshakes),
		"limits.tcp_connections":           strconv.Itoa(rpctcp.DefaultConnections),
		"limits.tcp_connections_per_peer":  strconv.Itoa(rpctcp.DefaultConnectionsPerPeer),
		"limits.tcp_idle":                  spec.Text(reflect.ValueOf(rpctcp.DefaultIdle)),
		"limits.memory":                    spec.Size(dataplane.DefaultMemory).String(),
	}
	for port, l := range map[string]connlimit.Limits{
		"control": c.Limits.Control.Over(grpcapi.DefaultClients()), "metrics": c.Limits.Metrics.Over(metrics.DefaultScrapers()),
	} {
		all["limits."+port+".connections"] = strconv.Itoa(l.Total)
		all["limits."+port+".connections_per_peer"] = strconv.Itoa(l.PerKey)
		all["limits."+port+".idle"] = spec.Text(reflect.ValueOf(l.Idle))
		if l.Reserved > 0 {
			all["limits."+port+".reserved"] = strconv.Itoa(l.Reserved)
		}
	}
	return all
}

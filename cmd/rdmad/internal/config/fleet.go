package config

import (
	"cmp"
	"net/url"
	"os"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/fleet"
	"github.com/rdmad/rdmad/dataplane/conditions"
)

// Fleet is the fleet of which this rdmad is a node.
type Fleet struct {
	Endpoints []string `mapstructure:"endpoints" doc:"list of etcd's addresses: https://HOST:PORT, or http://HOST:PORT without TLS"`
	Prefix    string   `mapstructure:"prefix" default:"/rdmad" doc:"prefix of all keys in etcd"`
	Node      string   `mapstructure:"node" doc:"name of this rdmad in the fleet; empty for the host's name"`
	Labels    Labels   `mapstructure:"labels" doc:"labels of this rdmad, by which policies select it: a mapping, or NAME=VALUE,NAME=VALUE"`
	// TLS is the last field: the defaults of the others stay those of this section.
	TLS *FleetTLS `mapstructure:"tls"`
}

// FleetTLS names the files of the connections to etcd.
type FleetTLS struct {
	Cert string `mapstructure:"cert" doc:"file with the certificate that this rdmad shows to etcd"`
	Key  string `mapstructure:"key" doc:"file with the key of that certificate"`
	CA   string `mapstructure:"ca" doc:"file with the CA certificates that sign etcd's certificates"`
}

// Labels are those of a node in one text, as fleet.ParseLabels reads them.
type Labels string

var labelsType = reflect.TypeFor[Labels]()

// labels reads a mapping of names to values, or their text.
func (d document) labels(key string, n *yaml.Node, from configfile.Source) (any, bool) {
	var l fleet.Labels
	var err error
	if n.Kind == yaml.ScalarNode {
		l, err = fleet.ParseLabels(n.Value)
	} else {
		all, ok := d.Entries(key, n, from, func(string) string { return "" })
		if !ok {
			return nil, false
		}
		l = fleet.Labels{}
		for _, one := range all {
			if one.Value.Kind != yaml.ScalarNode {
				d.Wrong(one.Key, one.At, "must be one value, not a list or a mapping")
				return nil, false
			}
			if !one.Empty() {
				l[one.Name] = one.Value.Value
			}
		}
		err = l.Check()
	}
	if err != nil {
		d.Wrong(key, from(n), err.Error())
		return nil, false
	}
	return l.String(), true
}

// ByName returns the labels. f must be checked.
func (f *Fleet) ByName() fleet.Labels {
	l, err := fleet.ParseLabels(string(f.Labels))
	if err != nil {
		panic("config: labels were not checked")
	}
	return l
}

func (c *Config) validateFleet(d document) {
	f := c.Fleet
	if f == nil {
		return
	}
	f.Prefix = cmp.Or(f.Prefix, "/rdmad")
	if !strings.HasPrefix(f.Prefix, "/") || strings.HasSuffix(f.Prefix, "/") || len(f.Prefix) > 256 {
		d.Fail("fleet.prefix", "%q must begin with '/', not end with it, and have at most 256 bytes", f.Prefix)
	}
	if f.Node == "" {
		f.Node, _ = os.Hostname()
	}
	if text := fleet.NameProblem(f.Node); text != "" {
		d.Fail("fleet.node", "%s", text)
	} else if f.Node == conditions.FleetController || f.Node == conditions.FleetKeys {
		d.Fail("fleet.node", "%q is the name of a condition of the fleet; give this rdmad another name", f.Node)
	}
	if len(f.Endpoints) == 0 {
		d.Fail("fleet.endpoints", "is missing: give the addresses of etcd, such as https://192.0.2.1:2379")
	}
	for i, e := range f.Endpoints {
		c.endpoint(d, index("fleet.endpoints", i), e)
	}
	if t := f.TLS; t == nil && d.Given("fleet.tls") || t != nil && (t.Cert == "" || t.Key == "" || t.CA == "") {
		d.Fail("fleet.tls", "needs all of cert, key and ca")
	}
}

// endpoint checks an address of etcd.
func (c *Config) endpoint(d document, key, text string) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.Port() == "" || strings.Trim(u.Path, "/") != "" || u.User != nil:
		d.Fail(key, "%q is not https://HOST:PORT or http://HOST:PORT", text)
	case u.Scheme == "https" && c.Fleet.TLS == nil:
		d.Fail("fleet.tls", "is missing: %s needs cert, key and ca", text)
	case u.Scheme == "http" && c.Fleet.TLS != nil:
		d.Fail(key, "%s has no TLS, and fleet.tls is given: write https://", text)
	}
}

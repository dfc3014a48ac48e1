package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// validate checks what the fields by themselves can't say.
func (c *Config) validate(d *document, o Options) {
	for _, check := range []func(*document, Options){
		c.validateControl, c.validateState, c.validateProviders, c.validateServices, c.validateListeners, c.validateLimits, c.validateConnectors,
		c.validateClashes, c.Settings.validate,
	} {
		check(d, o)
	}
}

// index is the dotted name of an item of a list.
func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func (c *Config) validateState(d *document, _ Options) {
	if c.State.Path == "" {
		d.fail("state.path", "must not be empty")
	}
}

func (c *Config) validateProviders(d *document, _ Options) {
	if bad, ok := errors.AsType[*tuning.Error](c.Providers.Rdmacore.Check()); ok {
		d.fail("providers.rdmacore."+bad.Key, "%s", bad.Msg)
	}
}

func (c *Config) validateServices(d *document, _ Options) {
	seen := map[string]bool{}
	for i := range c.Services {
		s, key := &c.Services[i], index("services", i)
		d.specification(key, s, s.Name, seen)
		if s.Kind() != "" {
			continue
		}
		kinds := 0
		for _, set := range []bool{s.NFS != nil, s.Echo != nil, s.Forward != nil} {
			if set {
				kinds++
			}
		}
		d.fail(key, "service %q needs exactly one of nfs, echo, forward; it has %d", s.Name, kinds)
	}
}

// specification checks that an item has what it needs, and a name of its own.
func (d *document) specification(key string, item any, name string, seen map[string]bool) {
	if seen[name] {
		d.fail(key+".name", "%q is taken already", name)
	}
	seen[name] = name != ""
	for f, problem := range spec.Problems(item) {
		if problem != "" {
			d.fail(key+"."+f.Path, "%s", problem)
		}
	}
}

func (c *Config) validateListeners(d *document, o Options) {
	seen := map[string]bool{}
	for i := range c.Listeners {
		l, key := &c.Listeners[i], index("listeners", i)
		d.specification(key, l, l.Name, seen)
		d.provider(key, l.Provider, o)
		d.access(key, len(l.Allow))
		at := slices.IndexFunc(c.Services, func(s spec.Service) bool { return s.Name == l.Service })
		switch {
		case at < 0:
			d.fail(key+".service", "there is no service %q", l.Service)
		case l.RPCBind && c.Services[at].Forward != nil:
			d.fail(key+".rpcbind", "service %q forwards programs that rdmad does not know; leave it off", l.Service)
		}
	}
}

func (c *Config) validateConnectors(d *document, o Options) {
	seen := map[string]bool{}
	for i := range c.Connectors {
		n, key := &c.Connectors[i], index("connectors", i)
		d.specification(key, n, n.Name, seen)
		d.provider(key, n.Provider, o)
		d.access(key, len(n.Allow))
		if n.Name != "" && slices.ContainsFunc(c.Listeners, func(l spec.Listener) bool { return l.Name == n.Name }) {
			d.fail(key+".name", "%q is the name of a listener; the settings of both are those of listener/%s", n.Name, n.Name)
		}
	}
}

// access refuses an allow that is there and empty.
func (d *document) access(key string, allowed int) {
	if d.given(key+".allow") && allowed == 0 {
		d.fail(key+".allow", "an empty list would let everybody in; leave it out to say so, or name who may connect")
	}
}

func (d *document) provider(key, v string, o Options) {
	if o.Providers == nil || slices.Contains(o.Providers, v) {
		return
	}
	text := fmt.Sprintf("%q is not in this build, which has: %s", v, strings.Join(o.Providers, ", "))
	if how := o.Absent[v]; how != "" {
		text += "; " + how
	}
	d.fail(key+".provider", "%s", text)
}

// Address is one that is listened at, and the key that names it.
type Address struct {
	Key, Address string
	Provider     string // of verbs; "" for TCP and Unix sockets
}

// Addresses are those that are listened at.
func (c *Config) Addresses() []Address {
	all := []Address{{"control.listen", c.Control.Listen, ""}, {"metrics.listen", c.Metrics.Listen, ""}}
	for i, s := range c.Services {
		if s.NFS != nil {
			all = append(all, Address{index("services", i) + ".nfs.tcp_listen", s.NFS.TCPListen, ""})
		}
	}
	for i, l := range c.Listeners {
		all = append(all, Address{index("listeners", i) + ".address", l.Address, l.Provider})
	}
	for i, n := range c.Connectors {
		all = append(all, Address{index("connectors", i) + ".listen", n.Listen, ""})
	}
	return slices.DeleteFunc(all, func(a Address) bool { return a.Address == "" })
}

// validateClashes finds two things that want one address. softiwarp listens
// on TCP ports too.
func (c *Config) validateClashes(d *document, _ Options) {
	users := map[string]string{}
	for _, one := range c.Addresses() {
		other := users[one.Address]
		if other != "" && !strings.HasSuffix(one.Address, ":0") {
			d.fail(one.Key, "%s is the address of %s already", one.Address, other)
		}
		users[one.Address] = cmp.Or(other, one.Key)
	}
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

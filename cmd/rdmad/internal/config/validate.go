package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// validate makes the checks that concern several fields.
func (c *Config) validate(d document) {
	for _, check := range []func(document){
		c.validateControl, c.validateConsole, c.validateState, c.validateProviders, c.validateServices, c.validateListeners, c.validateLimits, c.validateTracing, c.validateConnectors,
		c.validateClashes, c.validateTogether, c.validateScopes, c.validateFleet,
	} {
		check(d)
	}
}

// index returns the dotted name of an item of a list.
func index(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

func (c *Config) validateState(d document) {
	if c.State.Path == "" {
		d.Fail("state.path", "must not be empty")
	}
}

func (c *Config) validateProviders(d document) {
	if bad, ok := errors.AsType[*tuning.Error](c.Providers.Rdmacore.Check()); ok {
		d.Fail("providers.rdmacore."+bad.Key, "%s", bad.Msg)
	}
}

func (c *Config) validateServices(d document) {
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
		d.Fail(key, "service %q needs exactly one of nfs, echo, forward; it has %d", s.Name, kinds)
	}
}

// specification checks that an item has everything that it needs, and a unique name.
func (d document) specification(key string, item any, name string, seen map[string]bool) {
	if seen[name] {
		d.Fail(key+".name", "%q is taken already", name)
	}
	seen[name] = name != ""
	for field, problem := range spec.Problems(item) {
		d.Fail(key+"."+field, "%s", problem)
	}
}

func (c *Config) validateListeners(d document) {
	seen := map[string]bool{}
	for i := range c.Listeners {
		l, key := &c.Listeners[i], index("listeners", i)
		d.specification(key, l, l.Name, seen)
		d.provider(key, l.Provider)
		d.access(key, len(l.Allow))
		at := slices.IndexFunc(c.Services, func(s spec.Service) bool { return s.Name == l.Service })
		switch {
		case at < 0:
			d.Fail(key+".service", "there is no service %q", l.Service)
		case l.RPCBind && c.Services[at].Forward != nil:
			d.Fail(key+".rpcbind", "service %q forwards programs that rdmad does not know; leave it off", l.Service)
		}
	}
}

func (c *Config) validateConnectors(d document) {
	seen := map[string]bool{}
	for i := range c.Connectors {
		n, key := &c.Connectors[i], index("connectors", i)
		d.specification(key, n, n.Name, seen)
		d.provider(key, n.Provider)
		d.access(key, len(n.Allow))
		if n.Name != "" && slices.ContainsFunc(c.Listeners, func(l spec.Listener) bool { return l.Name == n.Name }) {
			d.Fail(key+".name", "%q is the name of a listener; the settings of both are those of listener/%s", n.Name, n.Name)
		}
	}
}

// access refuses an allow that is given and empty.
func (d document) access(key string, allowed int) {
	if d.Given(key+".allow") && allowed == 0 {
		d.Fail(key+".allow", "an empty list would let everybody in; leave it out to say so, or name who may connect")
	}
}

func (d document) provider(key, v string) {
	if d.Providers == nil || slices.Contains(d.Providers, v) {
		return
	}
	text := fmt.Sprintf("%q is not in this build, which has: %s", v, strings.Join(d.Providers, ", "))
	if v == "" {
		text = "is missing; this build has: " + strings.Join(d.Providers, ", ")
	}
	if how := d.Absent[v]; how != "" {
		text += "; " + how
	}
	d.Fail(key+".provider", "%s", text)
}

// Address is an address to listen on, and its key.
type Address struct {
	Key, Address string
	Provider     string // of verbs; "" for TCP and Unix sockets
}

// Addresses returns the addresses to listen on.
func (c *Config) Addresses() []Address {
	all := []Address{{"control.listen", c.Control.Listen, ""}, {"metrics.listen", c.Metrics.Listen, ""}, {"console.listen", c.Console.Listen, ""}}
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

// validateClashes finds two keys whose addresses can't be bound at the same time. softiwarp also listens on
// TCP ports. Names of hosts are not looked up.
func (c *Config) validateClashes(d document) {
	users := map[string]string{}
	for _, one := range c.Addresses() {
		if strings.HasSuffix(one.Address, ":0") {
			continue
		}
		takes, clashes := reach(one)
		for _, what := range clashes {
			if other := users[what]; other != "" {
				text := "%s overlaps with the address of %s"
				if what == one.Address {
					text = "%s is the address of %s already"
				}
				d.Fail(one.Key, text, one.Address, other)
				break
			}
		}
		for _, what := range takes {
			users[what] = cmp.Or(users[what], one.Key)
		}
	}
}

// reach returns what an address takes, and what others must not have taken: the address as it is written, and
// of its port some or all addresses, of both families or of IPv4.
func reach(a Address) (takes, clashes []string) {
	takes, clashes = []string{a.Address}, []string{a.Address}
	host, port, err := net.SplitHostPort(a.Address)
	ip, bad := netip.ParseAddr(cmp.Or(host, "::"))
	if err != nil || bad != nil || a.Provider != "" && a.Provider != "softiwarp" { // adapters have ports of their own
		return takes, clashes
	}
	switch ip = ip.Unmap(); {
	case ip == netip.IPv6Unspecified():
		return append(takes, "all "+port, "some "+port), append(clashes, "some "+port)
	case ip == netip.IPv4Unspecified():
		return append(takes, "all of IPv4 "+port, "some of IPv4 "+port, "some "+port), append(clashes, "all "+port, "some of IPv4 "+port)
	case ip.Is4():
		return append(takes, "some of IPv4 "+port, "some "+port), append(clashes, "all "+port, "all of IPv4 "+port)
	}
	return append(takes, "some "+port), append(clashes, "all "+port)
}

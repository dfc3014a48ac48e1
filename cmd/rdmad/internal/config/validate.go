package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rdmad/rdmad/dataplane/manager"
)

// validate checks what the types can't say. What is valid but comes with a
// later version is refused last, so that its own mistakes are told first.
func (c *Config) validate(d *document, o Options) error {
	for _, check := range []func(*document, Options) error{
		c.validateControl, c.validateAddresses, c.validateProviders, c.validateServices, c.validateListeners, c.validateLimits, c.validateConnectors,
		c.validateClashes, c.Settings.validate, c.refuseUnbuilt,
	} {
		if err := check(d, o); err != nil {
			return err
		}
	}
	return nil
}

func (c *Config) validateAddresses(d *document, _ Options) error {
	if c.Metrics.Listen != "" {
		if err := address(d, "metrics.listen", c.Metrics.Listen); err != nil {
			return err
		}
	}
	if c.State.Path == "" {
		return d.fail("state.path", "must not be empty")
	}
	return nil
}

func (c *Config) validateServices(d *document, _ Options) error {
	seen := map[string]bool{}
	for i, s := range c.Services {
		key := "services[" + strconv.Itoa(i) + "]"
		if err := name(d, key, s.Name, seen); err != nil {
			return err
		}
		kinds := 0
		if s.NFS != nil {
			kinds++
			if s.NFS.Path == "" {
				return d.fail(key+".nfs.path", "is missing: which directory is served?")
			}
			if q := s.NFS.Squash; q != "" && !slices.Contains(manager.Squashes, q) {
				return d.fail(key+".nfs.squash", "%q is none of %s", q, strings.Join(manager.Squashes, ", "))
			}
			if a := s.NFS.TCPListen; a != "" {
				if err := address(d, key+".nfs.tcp_listen", a); err != nil {
					return err
				}
			}
		}
		if s.Echo != nil {
			kinds++
		}
		if s.Forward != nil {
			kinds++
			if err := s.Forward.validate(d, key+".forward"); err != nil {
				return err
			}
		}
		if kinds != 1 {
			return d.fail(key, "service %q needs exactly one of nfs, echo, forward; it has %d", s.Name, kinds)
		}
	}
	return nil
}

// name checks a name's syntax and that it is the only one of its kind.
func name(d *document, key, v string, seen map[string]bool) error {
	if v == "" {
		return d.fail(key+".name", "is missing")
	}
	if text := manager.NameProblem(v); text != "" {
		return d.fail(key+".name", "%s", text)
	}
	if seen[v] {
		return d.fail(key+".name", "%q is taken already", v)
	}
	seen[v] = true
	return nil
}

func (c *Config) validateListeners(d *document, o Options) error {
	seen := map[string]bool{}
	for i, l := range c.Listeners {
		key := "listeners[" + strconv.Itoa(i) + "]"
		if err := name(d, key, l.Name, seen); err != nil {
			return err
		}
		if err := provider(d, key+".provider", l.Provider, o); err != nil {
			return err
		}
		if err := address(d, key+".address", l.Address); err != nil {
			return err
		}
		at := slices.IndexFunc(c.Services, func(s Service) bool { return s.Name == l.Service })
		if at < 0 {
			return d.fail(key+".service", "there is no service %q", l.Service)
		}
		if l.RPCBind && c.Services[at].Forward != nil {
			return d.fail(key+".rpcbind", "service %q forwards programs that rdmad does not know; leave it off", l.Service)
		}
	}
	return nil
}

func provider(d *document, key, v string, o Options) error {
	if !slices.Contains(o.Providers, v) {
		text := fmt.Sprintf("%q is not in this build, which has: %s", v, strings.Join(o.Providers, ", "))
		if how := o.Absent[v]; how != "" {
			text += "; " + how
		}
		return d.fail(key, "%s", text)
	}
	return nil
}

const unbuilt = "%s: not available in this build yet"

// refuseUnbuilt refuses what this build has no code for.
func (c *Config) refuseUnbuilt(d *document, _ Options) error { return c.Settings.refuseUnbuilt(d) }

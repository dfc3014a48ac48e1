package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connector"
)

// Connector accepts ONC RPC on TCP and sends it on over RPC-over-RDMA.
type Connector struct {
	Name     string `mapstructure:"name"`
	Listen   string `mapstructure:"listen"`
	Provider string `mapstructure:"provider"`
	// Target is the RPC-over-RDMA server.
	Target string `mapstructure:"target"`
	// DialTimeout is how long the target has to come up for a client, such as
	// 10s; CallbackTimeout how long a client has to answer a call of the target.
	DialTimeout     string `mapstructure:"dial_timeout"`
	CallbackTimeout string `mapstructure:"callback_timeout"`
	// MaxCalls bounds the calls of a client in flight, within credits.max.
	MaxCalls int64 `mapstructure:"max_calls"`
	// MaxReply is the largest reply, in bytes, of programs without a binding.
	MaxReply int64 `mapstructure:"max_reply"`
	// Limits bound the clients; memory is what their calls hold together.
	Limits Limits `mapstructure:"limits"`
	// Allow and Deny are as those of a listener, for TCP clients.
	Allow []string `mapstructure:"allow"`
	Deny  []string `mapstructure:"deny"`

	// Access, Dial and Callback are the texts as they were read; 0 is the
	// default.
	Access         dataplane.Access `mapstructure:"-"`
	Dial, Callback time.Duration    `mapstructure:"-"`
}

func (c *Config) validateConnectors(d *document, o Options) error {
	seen := map[string]bool{}
	for i := range c.Connectors {
		n, key := &c.Connectors[i], "connectors["+strconv.Itoa(i)+"]"
		if err := name(d, key, n.Name, seen); err != nil {
			return err
		}
		if slices.ContainsFunc(c.Listeners, func(l Listener) bool { return l.Name == n.Name }) {
			return d.fail(key+".name", "%q is the name of a listener; the settings of both are those of listener/%s", n.Name, n.Name)
		}
		if err := provider(d, key+".provider", n.Provider, o); err != nil {
			return err
		}
		if err := address(d, key+".listen", n.Listen); err != nil {
			return err
		}
		if err := address(d, key+".target", n.Target); err != nil {
			return err
		}
		if strings.HasSuffix(n.Target, ":0") {
			return d.fail(key+".target", "nobody listens on port 0; NFS over RDMA is on port 20049")
		}
		if err := n.validateValues(d, key); err != nil {
			return err
		}
	}
	return nil
}

func (n *Connector) validateValues(d *document, key string) (err error) {
	if n.Dial, err = connectorTime(d, key+".dial_timeout", n.DialTimeout); err != nil {
		return err
	}
	if n.Callback, err = connectorTime(d, key+".callback_timeout", n.CallbackTimeout); err != nil {
		return err
	}
	for _, v := range []struct {
		name             string
		value, low, high int64
	}{
		{"max_calls", n.MaxCalls, 1, connector.MostCalls},
		{"max_reply", n.MaxReply, connector.MinMaxReply, connector.MaxRecord},
		{"limits.memory", n.Limits.Memory, connector.MinMemory, dataplane.MaxMemory},
	} {
		if at := key + "." + v.name; d.given(at) && (v.value < v.low || v.value > v.high) {
			return d.fail(at, "%d is out of range %d..%d", v.value, v.low, v.high)
		}
	}
	if err := n.Limits.validate(d, key+".limits"); err != nil {
		return err
	}
	if err := n.Limits.validateScoped(d, key+".limits"); err != nil {
		return err
	}
	if n.Access.Allow, err = prefixes(d, key+".allow", n.Allow); err != nil {
		return err
	}
	if n.Access.Deny, err = prefixes(d, key+".deny", n.Deny); err != nil {
		return err
	}
	if d.given(key+".allow") && len(n.Allow) == 0 {
		return d.fail(key+".allow", "an empty list would let everybody in; leave it out to say so, or name who may connect")
	}
	return nil
}

// connectorTime reads a time; 0 when it is not given.
func connectorTime(d *document, key, v string) (time.Duration, error) {
	if !d.given(key) {
		return 0, nil
	}
	t, err := time.ParseDuration(v)
	if err != nil {
		return 0, d.fail(key, "%q is not a time such as 10s", v)
	}
	if t < connector.MinTime || t > connector.MaxTime {
		return 0, d.fail(key, "%v is out of range %v..%v", t, connector.MinTime, connector.MaxTime)
	}
	return t, nil
}

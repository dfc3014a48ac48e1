package config

import (
	"net/netip"
	"strconv"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// Limits bound connections and the memory of the process. 0 means the default; in a
// listener or connector, no limit of its own.
type Limits struct {
	Connections           int64  `mapstructure:"connections"`
	ConnectionsPerPeer    int64  `mapstructure:"connections_per_peer"`
	Handshakes            int64  `mapstructure:"handshakes"`
	Memory                int64  `mapstructure:"memory"` // bytes
	TCPConnections        int64  `mapstructure:"tcp_connections"`
	TCPConnectionsPerPeer int64  `mapstructure:"tcp_connections_per_peer"`
	TCPIdle               string `mapstructure:"tcp_idle"`

	// Idle is the time without a call after which a connection is closed, such as
	// 10m. "" means never.
	Idle string `mapstructure:"idle"`
	// Control and Metrics are those of rdmad's own ports.
	Control PortLimits `mapstructure:"control"`
	Metrics PortLimits `mapstructure:"metrics"`

	// IdleTime is Idle as a duration.
	IdleTime time.Duration `mapstructure:"-"`
	// TCPIdleTime is TCPIdle as a duration.
	TCPIdleTime time.Duration `mapstructure:"-"`
}

// TCP gives the limits of services on TCP.
func (l *Limits) TCP() dataplane.TCPLimits {
	return dataplane.TCPLimits{
		Connections:        int(l.TCPConnections),
		ConnectionsPerPeer: int(l.TCPConnectionsPerPeer),
		Idle:               l.TCPIdleTime,
	}
}

// validateTCP checks the keys that exist only at the top of the file.
func (l *Limits) validateTCP(d *document) (err error) {
	for _, v := range []struct {
		at    string
		value int64
	}{
		{"limits.tcp_connections", l.TCPConnections},
		{"limits.tcp_connections_per_peer", l.TCPConnectionsPerPeer},
	} {
		if d.given(v.at) && (v.value < 1 || v.value > dataplane.MaxLimit) {
			return d.fail(v.at, "%d is out of range 1..%d", v.value, dataplane.MaxLimit)
		}
	}
	const at = "limits.tcp_idle"
	if !d.given(at) {
		return nil
	}
	if l.TCPIdleTime, err = time.ParseDuration(l.TCPIdle); err != nil {
		return d.fail(at, "%q is not a time such as 6m", l.TCPIdle)
	}
	if l.TCPIdleTime < dataplane.MinTCPIdle || l.TCPIdleTime > dataplane.MaxTCPIdle {
		return d.fail(at, "%v is out of range %v..%v", l.TCPIdleTime, dataplane.MinTCPIdle, dataplane.MaxTCPIdle)
	}
	return nil
}

// validateScoped refuses the keys that exist only at the top of the file. l belongs
// to a listener or connector.
func (l *Limits) validateScoped(d *document, key string) error {
	for _, name := range []string{"tcp_connections", "tcp_connections_per_peer", "tcp_idle"} {
		if at := key + "." + name; d.given(at) {
			return d.fail(at, "this is a limit of all together: set limits.%s at the top", name)
		}
	}
	for _, port := range []string{"control", "metrics"} {
		if at := key + "." + port; d.given(at) {
			return d.fail(at, "is a port of rdmad itself: set limits.%s at the top", port)
		}
	}
	return nil
}

// Dataplane gives the limits as the data plane takes them.
func (l *Limits) Dataplane() dataplane.Limits {
	return dataplane.Limits{
		Connections:        int(l.Connections),
		ConnectionsPerPeer: int(l.ConnectionsPerPeer),
		Handshakes:         int(l.Handshakes),
		Idle:               l.IdleTime,
	}
}

func (l *Limits) validate(d *document, key string) error {
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"connections", l.Connections},
		{"connections_per_peer", l.ConnectionsPerPeer},
		{"handshakes", l.Handshakes},
	} {
		at := key + "." + v.name
		if d.given(at) && (v.value < 1 || v.value > dataplane.MaxLimit) {
			return d.fail(at, "%d is out of range 1..%d", v.value, dataplane.MaxLimit)
		}
	}
	var err error
	l.IdleTime, err = idleTime(d, key+".idle", l.Idle)
	return err
}

func (c *Config) validateLimits(d *document, _ Options) error {
	if err := c.Limits.validate(d, "limits"); err != nil {
		return err
	}
	if n := c.Limits.Memory; d.given("limits.memory") && (n < dataplane.MinMemory || n > dataplane.MaxMemory) {
		return d.fail("limits.memory", "%d is out of range %d..%d bytes", n, int64(dataplane.MinMemory), int64(dataplane.MaxMemory))
	}
	if err := c.Limits.validateTCP(d); err != nil {
		return err
	}
	if err := c.Limits.Control.validate(d, "limits.control"); err != nil {
		return err
	}
	if d.given("limits.metrics.reserved") {
		return d.fail("limits.metrics.reserved", "the metrics port has no admins, so it keeps no connections for them; leave it out")
	}
	if err := c.Limits.Metrics.validate(d, "limits.metrics"); err != nil {
		return err
	}
	for i := range c.Listeners {
		l, key := &c.Listeners[i], "listeners["+strconv.Itoa(i)+"]"
		if err := l.Limits.validateScoped(d, key+".limits"); err != nil {
			return err
		}
		if err := l.Limits.validate(d, key+".limits"); err != nil {
			return err
		}
		if at := key + ".limits.memory"; d.given(at) {
			return d.fail(at, "listeners share one budget: set limits.memory at the top")
		}
		var err error
		if l.Access.Allow, err = prefixes(d, key+".allow", l.Allow); err != nil {
			return err
		}
		if l.Access.Deny, err = prefixes(d, key+".deny", l.Deny); err != nil {
			return err
		}
		if d.given(key+".allow") && len(l.Allow) == 0 {
			return d.fail(key+".allow", "an empty list would let everybody in; leave it out to say so, or name who may connect")
		}
	}
	return nil
}

// prefixes reads a list of addresses and CIDRs.
func prefixes(d *document, key string, list []string) ([]netip.Prefix, error) {
	if len(list) > dataplane.MaxPrefixes {
		return nil, d.fail(key, "%d entries, at most %d are taken", len(list), dataplane.MaxPrefixes)
	}
	var out []netip.Prefix
	for i, s := range list {
		p, err := dataplane.ParsePrefix(s)
		if err != nil {
			return nil, d.fail(key+"["+strconv.Itoa(i)+"]", "%v", err)
		}
		out = append(out, p)
	}
	return out, nil
}

package config

import (
	"cmp"
	"time"

	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/metrics"
)

// PortLimits bound the connections of one of rdmad's own ports; what is not
// given has its default.
type PortLimits struct {
	Connections        int64 `mapstructure:"connections"`
	ConnectionsPerPeer int64 `mapstructure:"connections_per_peer"`
	// Reserved connections are kept for admins.
	Reserved int64  `mapstructure:"reserved"`
	Idle     string `mapstructure:"idle"`

	// IdleTime is Idle as it was read.
	IdleTime time.Duration `mapstructure:"-"`
}

// ControlClients are the limits of the control plane's clients.
func (l *Limits) ControlClients() connlimit.Limits { return l.Control.over(grpcapi.DefaultClients()) }

// Scrapers are the limits of the metrics port.
func (l *Limits) Scrapers() connlimit.Limits { return l.Metrics.over(metrics.DefaultScrapers()) }

// over puts what is given over the defaults. A smaller port keeps its
// proportions.
func (p *PortLimits) over(d connlimit.Limits) connlimit.Limits {
	out := d
	out.Total = cmp.Or(int(p.Connections), d.Total)
	out.PerKey = cmp.Or(int(p.ConnectionsPerPeer), min(d.PerKey, max(out.Total/4, 1)))
	out.Reserved = cmp.Or(int(p.Reserved), min(d.Reserved, out.Total/4))
	out.Idle = cmp.Or(p.IdleTime, d.Idle)
	return out
}

func (p *PortLimits) validate(d *document, key string) (err error) {
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"connections", p.Connections}, {"connections_per_peer", p.ConnectionsPerPeer}, {"reserved", p.Reserved},
	} {
		if at := key + "." + v.name; d.given(at) && (v.value < 1 || v.value > dataplane.MaxLimit) {
			return d.fail(at, "%d is out of range 1..%d", v.value, dataplane.MaxLimit)
		}
	}
	if p.Connections > 0 && p.Reserved >= p.Connections {
		return d.fail(key+".reserved", "%d of %d connections leaves nobody else one", p.Reserved, p.Connections)
	}
	p.IdleTime, err = idleTime(d, key+".idle", p.Idle)
	return err
}

// idleTime reads a time without use; 0 when it is not given.
func idleTime(d *document, key, v string) (time.Duration, error) {
	if !d.given(key) {
		return 0, nil
	}
	t, err := time.ParseDuration(v)
	if err != nil || t%time.Second != 0 {
		return 0, d.fail(key, "%q is not a time in seconds, minutes or hours such as 10m", v)
	}
	if t < time.Second || t > dataplane.MaxIdle {
		return 0, d.fail(key, "%v is out of range 1s..%v", t, dataplane.MaxIdle)
	}
	return t, nil
}

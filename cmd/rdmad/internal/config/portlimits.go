package config

import (
	"errors"
	"time"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/connlimit/port"
)

// PortLimits bound the connections of one of rdmad's own ports. A key that is left
// out has its default.
type PortLimits struct {
	Connections        int64 `mapstructure:"connections"`
	ConnectionsPerPeer int64 `mapstructure:"connections_per_peer"`
	// Reserved connections are kept for admins.
	Reserved int64  `mapstructure:"reserved"`
	Idle     string `mapstructure:"idle"`

	// IdleTime is Idle as a duration.
	IdleTime time.Duration `mapstructure:"-"`
}

// Limits gives the limits as the port takes them.
func (p *PortLimits) Limits() port.Limits {
	return port.Limits{
		Connections: int(p.Connections), ConnectionsPerPeer: int(p.ConnectionsPerPeer), Reserved: int(p.Reserved), Idle: p.IdleTime,
	}
}

func (p *PortLimits) validate(d *document, key string) (err error) {
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"connections", p.Connections}, {"connections_per_peer", p.ConnectionsPerPeer}, {"reserved", p.Reserved},
	} {
		if at := key + "." + v.name; d.given(at) && (v.value < 1 || v.value > port.MaxConnections) {
			return d.fail(at, "%d is out of range 1..%d", v.value, port.MaxConnections)
		}
	}
	if p.IdleTime, err = idleTime(d, key+".idle", p.Idle); err != nil {
		return err
	}
	l := p.Limits()
	if bad, ok := errors.AsType[*port.LimitError](l.Check()); ok {
		return d.fail(key+"."+bad.Limit, "%s", bad.Reason)
	}
	return nil
}

// idleTime parses a time without use; 0 when it is left out.
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

package config

import (
	"errors"
	"time"

	"github.com/rdmad/rdmad/dataplane/forward"
)

// Forward sends calls on to an ONC RPC server on TCP. What is not given is the
// default of package forward.
type Forward struct {
	Address string `mapstructure:"address"`
	// DialTimeout is how long a client waits for its upstream connection, such
	// as 5s; CallTimeout how long the upstream has to answer a call;
	// CallbackTimeout how long a client has to answer one of the upstream.
	DialTimeout     string `mapstructure:"dial_timeout"`
	CallTimeout     string `mapstructure:"call_timeout"`
	CallbackTimeout string `mapstructure:"callback_timeout"`
	// ReservedPort connects from a port below 1024.
	ReservedPort bool `mapstructure:"reserved_port"`
	// MaxRecord is the largest reply, in bytes.
	MaxRecord int64 `mapstructure:"max_record"`

	// Config is all that as package forward takes it.
	Config forward.Config `mapstructure:"-"`
}

func (f *Forward) validate(d *document, key string) error {
	if err := address(d, key+".address", f.Address); err != nil {
		return err
	}
	f.Config = forward.Config{Address: f.Address, ReservedPort: f.ReservedPort, MaxRecord: int(f.MaxRecord)}
	for _, t := range []struct {
		name, text string
		to         *time.Duration
	}{
		{"dial_timeout", f.DialTimeout, &f.Config.DialTimeout},
		{"call_timeout", f.CallTimeout, &f.Config.CallTimeout},
		{"callback_timeout", f.CallbackTimeout, &f.Config.CallbackTimeout},
	} {
		at := key + "." + t.name
		if !d.given(at) {
			continue
		}
		v, err := time.ParseDuration(t.text)
		if err != nil {
			return d.fail(at, "%q is not a time such as 10s", t.text)
		}
		if *t.to = v; v == 0 {
			return d.fail(at, "0 is no time; leave it out for the default")
		}
	}
	if d.given(key+".max_record") && f.MaxRecord == 0 {
		return d.fail(key+".max_record", "0 is no size; leave it out for the default")
	}
	var bad *forward.ConfigError
	if err := f.Config.Check(); errors.As(err, &bad) {
		return d.fail(key+"."+bad.Key, "%s", bad.Msg)
	}
	return nil
}

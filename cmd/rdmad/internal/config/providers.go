package config

import (
	"errors"
	"time"

	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// Providers are what providers are made with.
type Providers struct {
	Rdmacore *Rdmacore `mapstructure:"rdmacore"`
}

// Rdmacore tunes provider rdmacore; see tuning.Settings. It may be given to a
// build without the provider. Times are texts such as 640us.
type Rdmacore struct {
	Device        string `mapstructure:"device"`
	RetryCount    int64  `mapstructure:"retry_count"`
	RNRRetryCount int64  `mapstructure:"rnr_retry_count"`
	RNRTimer      string `mapstructure:"rnr_timer"`
	AckTimeout    string `mapstructure:"ack_timeout"`
	BusyPoll      string `mapstructure:"busy_poll"`
	KeepAlive     string `mapstructure:"keep_alive"`
	RegisterSinks bool   `mapstructure:"register_sinks"`

	// Settings are all that as the provider takes it.
	Settings tuning.Settings `mapstructure:"-"`
}

// Tuning are the settings of provider rdmacore.
func (p *Providers) Tuning() tuning.Settings {
	if p.Rdmacore == nil {
		return tuning.Default()
	}
	return p.Rdmacore.Settings
}

func (c *Config) validateProviders(d *document, _ Options) error {
	if c.Providers.Rdmacore == nil {
		return nil
	}
	return c.Providers.Rdmacore.validate(d, "providers.rdmacore")
}

func (r *Rdmacore) validate(d *document, key string) error {
	s := tuning.Default()
	s.Device, s.RegisterSinks = r.Device, r.RegisterSinks
	if d.given(key + ".retry_count") {
		s.RetryCount = clamp(r.RetryCount)
	}
	if d.given(key + ".rnr_retry_count") {
		s.RNRRetryCount = clamp(r.RNRRetryCount)
	}
	for _, t := range []struct {
		name, text string
		to         *time.Duration
	}{
		{"rnr_timer", r.RNRTimer, &s.RNRTimer}, {"ack_timeout", r.AckTimeout, &s.AckTimeout}, {"busy_poll", r.BusyPoll, &s.BusyPoll},
		{"keep_alive", r.KeepAlive, &s.KeepAlive},
	} {
		at := key + "." + t.name
		if !d.given(at) {
			continue
		}
		v, err := time.ParseDuration(t.text)
		if err != nil {
			return d.fail(at, "%q is not a time such as 640us", t.text)
		}
		*t.to = v
	}
	var bad *tuning.Error
	if err := s.Check(); errors.As(err, &bad) {
		return d.fail(key+"."+bad.Key, "%s", bad.Msg)
	}
	r.Settings = s
	return nil
}

// clamp makes a count an int without making a wrong one right.
func clamp(n int64) int { return int(min(max(n, -1), 1<<20)) }

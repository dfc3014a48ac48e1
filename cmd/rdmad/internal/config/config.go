// Package config loads rdmad's configuration: defaults, then a file in YAML, TOML or JSON,
// then RDMAD_ environment variables, then flags. The whole configuration is checked before
// anything is started. Every mistake, an unknown key as well as a value out of range, is an
// *Error with its place. Load returns all of them at once.
//
// Keys, kinds, defaults and ranges are the tags of the types here and in package spec, which
// explains them.
//
// Relative paths start at the working directory.
package config

import (
	"time"

	"github.com/rdmad/rdmad/controlplane/configfile"
	"github.com/rdmad/rdmad/controlplane/tracing"
	"github.com/rdmad/rdmad/dataplane/spec"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

type (
	// Origin is the place from which a value comes.
	Origin = configfile.Origin
	// Origins are the origins of values, by dotted name.
	Origins = configfile.Origins
	// Error is a mistake in a configuration.
	Error = configfile.Error
)

// Config is a checked configuration.
type Config struct {
	// File is the name of the file, or "" without one.
	File string `mapstructure:"-"`
	// Text is the text of the file when Load read it.
	Text []byte `mapstructure:"-"`

	Control Control `mapstructure:"control"`
	Metrics Metrics `mapstructure:"metrics"`
	State   State   `mapstructure:"state"`
	Console Console `mapstructure:"console"`

	spec.All `mapstructure:",squash"`

	Providers Providers `mapstructure:"providers"`
	// Limits bounds the connections of all listeners together, and the memory of the
	// process.
	Limits  Limits  `mapstructure:"limits"`
	Tracing Tracing `mapstructure:"tracing"`
	// SlowCall is the shortest time of a slow call; 0 means that none is looked for.
	SlowCall time.Duration `mapstructure:"slow_call" range:"1ms..1h" doc:"shortest time of a slow call: rdmad logs each one, with where its time went; without it no calls are measured"`
	// Settings are the live settings of the global scope. Scopes has those of other scopes.
	Settings configfile.Settings `mapstructure:"settings"`
	Scopes   configfile.Scopes   `mapstructure:"scopes"`
	Fleet    *Fleet              `mapstructure:"fleet"`

	// Origins has the origin of each value that is not a default, by its dotted name, for
	// example listeners[0].address.
	Origins Origins `mapstructure:"-"`
	// Unknown lists the RDMAD_ environment variables that name no key.
	Unknown []string `mapstructure:"-"`
}

// Metrics is the HTTP server of /metrics, /healthz and /readyz.
type Metrics struct {
	Listen string `mapstructure:"listen" default:"127.0.0.1:20051" is:"optional address" doc:"HOST:PORT that serves /metrics, /healthz and /readyz; empty for no such port"`
	// WebConfig has the format that exporters of Prometheus share.
	WebConfig string `mapstructure:"web_config" doc:"file with TLS and users of metrics.listen, in the format of Prometheus exporters (docs/metrics.md)"`
}

// Tracing sends traces of the control plane to an OpenTelemetry collector.
type Tracing struct {
	OTLPEndpoint string `mapstructure:"otlp_endpoint" doc:"OpenTelemetry collector for traces of the control plane: http://HOST:PORT of OTLP over gRPC, or https://HOST:PORT; from the next start on"`
}

func (c *Config) validateTracing(d document) {
	if e := c.Tracing.OTLPEndpoint; e != "" {
		if text := tracing.Problem(e); text != "" {
			d.Fail("tracing.otlp_endpoint", "%s", text)
		}
	}
}

// State is the state that survives a restart.
type State struct {
	// Path is a directory, which is made when missing. One rdmad uses it at a time. It
	// contains a folder for each nfs service (file handle keys).
	Path string `mapstructure:"path" default:"./rdmad.state" doc:"directory for data that survives a restart; only one rdmad can use it at a time"`
}

// Providers configures the providers.
type Providers struct {
	Rdmacore tuning.Settings `mapstructure:"rdmacore"`
}

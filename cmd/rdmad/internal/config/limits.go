package config

import "github.com/rdmad/rdmad/dataplane/spec"

// Limits are the limits at the top of the file.
type Limits = spec.Limits

// elsewhere says where to set a limit that listeners and connectors do not have.
var elsewhere = map[string]string{
	"tcp_connections":          "this is a limit of all together: set limits.tcp_connections at the top",
	"tcp_connections_per_peer": "this is a limit of all together: set limits.tcp_connections_per_peer at the top",
	"tcp_idle":                 "this is a limit of all together: set limits.tcp_idle at the top",
	"control":                  "is a port of rdmad itself: set limits.control at the top",
	"metrics":                  "is a port of rdmad itself: set limits.metrics at the top",
	"memory":                   "listeners share one budget: set limits.memory at the top",
}

func (c *Config) validateLimits(d document) {
	if d.Given("limits." + spec.NoLimit) {
		d.Fail("limits."+spec.NoLimit, "the metrics port has no admins, so it keeps no connections for them; leave it out")
	}
	for field, problem := range spec.Problems(&c.Limits) {
		d.Fail("limits."+field, "%s", problem)
	}
}

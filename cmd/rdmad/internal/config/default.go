package config

import "github.com/rdmad/rdmad/dataplane/spec"

// The addresses and paths of a daemon without listeners and services.
const (
	DefaultExport = "./export"
	DefaultNFS    = "127.0.0.1:20049"
	DefaultNFSTCP = "127.0.0.1:20048"
)

// Default returns the configuration of an empty file.
func Default(export string) *Config {
	c, err := load("", nil, Options{Export: export}, nothing)
	if err != nil {
		panic(err)
	}
	return c
}

// fill adds, to a configuration without services, listeners and connectors, one listener that
// serves ./export by NFS.
func (c *Config) fill() {
	if len(c.Services) > 0 || len(c.Listeners) > 0 || len(c.Connectors) > 0 {
		return
	}
	c.Listeners = []spec.Listener{{Name: "nfs", Provider: "softiwarp", Address: DefaultNFS, Service: "export"}}
	c.Services = []spec.Service{{Name: "export", NFS: &spec.NFS{Export: spec.Export{Path: DefaultExport}, TCPListen: DefaultNFSTCP}}}
}

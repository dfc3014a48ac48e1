package config

import (
	"net"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
)

// Console is the web console.
type Console struct {
	Listen string      `mapstructure:"listen" is:"optional address" doc:"HOST:PORT that serves the web console: a loopback address, or any address with tls; empty for no console"`
	TLS    *ConsoleTLS `mapstructure:"tls"`
}

// ConsoleTLS names the files of the console's TLS.
type ConsoleTLS struct {
	Cert string `mapstructure:"cert" doc:"file with the console's certificate"`
	Key  string `mapstructure:"key" doc:"file with the key of the console's certificate"`
	// ClientCA lets browsers in by their certificates.
	ClientCA string `mapstructure:"client_ca" doc:"file with the CA certificates that sign browsers' certificates, whose roles control.roles gives; empty for tokens alone"`
}

func (c *Config) validateConsole(d document) {
	const key = "console.listen"
	t := c.Console.TLS
	if t == nil && d.Given("console.tls") || t != nil && (t.Cert == "" || t.Key == "") {
		d.Fail("console.tls", "needs both cert and key")
	}
	if t != nil && c.Console.Listen == "" {
		d.Fail(key, "is missing; console.tls is for it")
	}
	if _, _, err := net.SplitHostPort(c.Console.Listen); err != nil { // none, or reported already
		return
	}
	if t == nil && !onLoopback(c.Console.Listen) {
		d.Fail(key, "%s is not on the loopback; without console.tls the console listens there only", c.Console.Listen)
	}
}

// Address converts the configuration for the control plane. c must be checked.
func (c *Console) Address() controlplane.Console {
	a := controlplane.Console{Listen: c.Listen}
	if c.TLS != nil {
		a.TLS = &auth.Files{Cert: c.TLS.Cert, Key: c.TLS.Key, ClientCA: c.TLS.ClientCA, Browsers: true}
	}
	return a
}

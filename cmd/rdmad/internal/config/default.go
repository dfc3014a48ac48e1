package config

// The addresses and paths of a daemon without a configuration.
const (
	DefaultControl    = "127.0.0.1:20050"
	DefaultMetrics    = "127.0.0.1:20051"
	DefaultState      = "./rdmad.state"
	DefaultExport     = "./export"
	DefaultNFS        = "127.0.0.1:20049"
	DefaultNFSTCP     = "127.0.0.1:20048"
	defaultProvider   = "softiwarp"
	defaultListener   = "nfs"
	defaultNFSService = "export"
)

// Default is the configuration in force without a file: one listener that
// serves export by NFS.
func Default(export string) *Config {
	if export == "" {
		export = DefaultExport
	}
	return &Config{
		Control: Control{Listen: DefaultControl},
		Metrics: Metrics{Listen: DefaultMetrics},
		State:   State{Path: DefaultState},
		Listeners: []Listener{{
			Name: defaultListener, Provider: defaultProvider, Address: DefaultNFS, Service: defaultNFSService,
		}},
		Services: []Service{{
			Name: defaultNFSService,
			NFS:  &NFS{Path: export, TCPListen: DefaultNFSTCP},
		}},
	}
}

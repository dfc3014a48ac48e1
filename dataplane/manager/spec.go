package manager

import "github.com/rdmad/rdmad/dataplane/spec"

// The specifications that operators and the configuration give; see package spec.
type (
	ServiceSpec   = spec.Service
	NFSSpec       = spec.NFS
	EchoSpec      = spec.Echo
	ForwardSpec   = spec.Forward
	ListenerSpec  = spec.Listener
	ConnectorSpec = spec.Connector
)

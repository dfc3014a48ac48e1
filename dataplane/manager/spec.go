package manager

import "github.com/rdmad/rdmad/dataplane/spec"

// What operators and the configuration want; see package spec.
type (
	ServiceSpec   = spec.Service
	NFSSpec       = spec.NFS
	EchoSpec      = spec.Echo
	ForwardSpec   = spec.Forward
	ListenerSpec  = spec.Listener
	ConnectorSpec = spec.Connector
)

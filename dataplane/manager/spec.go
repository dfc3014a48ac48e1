package manager

import "github.com/rdmad/rdmad/dataplane/spec"

type (
	// ServiceSpec is what operators and the configuration want of a service.
	ServiceSpec = spec.Service
	// NFSSpec is that of a service of kind nfs.
	NFSSpec = spec.NFS
	// EchoSpec is that of a service of kind echo.
	EchoSpec = spec.Echo
	// ForwardSpec is that of a service of kind forward.
	ForwardSpec = spec.Forward
	// ListenerSpec is what they want of a listener.
	ListenerSpec = spec.Listener
	// ConnectorSpec is what they want of a connector.
	ConnectorSpec = spec.Connector
)

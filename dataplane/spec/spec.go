// Package spec declares the fields of listeners, services and connectors. A field is declared
// once, by its Go type and its tags. The configuration file, the environment, the API, the
// store, the export, the command line and the documentation use this declaration. A new field
// needs one line in this package, and a field in each of the element's messages of the .proto
// file: the one that shows it, the one that adds it and the one that updates it.
//
// The tags of a field:
//
//	mapstructure  its key; ",squash" takes the keys of an embedded struct
//	doc           one line of documentation
//	default       the value if none is given
//	range         the least and the largest value, LOW..HIGH
//	values        the values that a text may have, separated by commas
//	is            the kind of a text: name, provider, address, optional address, target
//	api           its path in the messages of the API, if different from the key
package spec

import (
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// Listener accepts RPC-over-RDMA connections for a service.
type Listener struct {
	Name     string           `mapstructure:"name" is:"name" doc:"name, unique among listeners and connectors; settings use it in the scope listener/NAME"`
	Provider string           `mapstructure:"provider" is:"provider" doc:"verbs provider: softiwarp or rdmacore"`
	Address  string           `mapstructure:"address" is:"address" doc:"HOST:PORT to accept connections at; with port 0 the system chooses a port"`
	Service  string           `mapstructure:"service" doc:"name of the service that answers the calls"`
	RPCBind  bool             `mapstructure:"rpcbind" doc:"register the programs of the service with this machine's rpcbind"`
	Limits   dataplane.Limits `mapstructure:"limits"`

	dataplane.Access `mapstructure:",squash"`
}

// Connector accepts ONC RPC on TCP and makes the calls over RPC-over-RDMA.
type Connector struct {
	Name     string `mapstructure:"name" is:"name" doc:"name, unique among listeners and connectors; settings use it in the scope listener/NAME"`
	Listen   string `mapstructure:"listen" is:"address" doc:"HOST:PORT to accept TCP clients at; with port 0 the system chooses a port"`
	Provider string `mapstructure:"provider" is:"provider" doc:"verbs provider of the connections to the target"`
	Target   string `mapstructure:"target" is:"target" doc:"HOST:PORT of the RPC-over-RDMA server"`

	DialTimeout     time.Duration `mapstructure:"dial_timeout" default:"10s" range:"100ms..10m" doc:"how long the target may take to accept the connection that is made for a client"`
	CallbackTimeout time.Duration `mapstructure:"callback_timeout" default:"30s" range:"100ms..10m" doc:"how long a client may take to answer a call of the target"`
	MaxCalls        int           `mapstructure:"max_calls" default:"256" range:"1..4096" doc:"maximum calls of one client in flight; credits.max limits them too"`
	MaxReply        Size          `mapstructure:"max_reply" default:"1MiB" range:"1KiB..1088KiB" doc:"largest reply of a program without a binding"`

	Limits ConnectorLimits `mapstructure:"limits"`

	dataplane.Access `mapstructure:",squash"`
}

// ConnectorLimits bound the clients of a connector.
type ConnectorLimits struct {
	dataplane.Limits `mapstructure:",squash"`

	Memory Size `mapstructure:"memory" default:"512MiB" range:"16MiB..1TiB" api:"max_memory" doc:"maximum memory that the calls of all clients hold together"`
}

// Service answers calls. Exactly one of its kinds is set.
type Service struct {
	Name    string   `mapstructure:"name" is:"name" doc:"name, unique among services; listeners refer to it"`
	NFS     *NFS     `mapstructure:"nfs"`
	Echo    *Echo    `mapstructure:"echo"`
	Forward *Forward `mapstructure:"forward"`
}

// Echo is the echo program. It has no fields.
type Echo struct{}

// Forward forwards calls to an ONC RPC server on TCP.
type Forward struct {
	Address         string        `mapstructure:"address" is:"address" doc:"HOST:PORT of the ONC RPC server on TCP"`
	DialTimeout     time.Duration `mapstructure:"dial_timeout" default:"5s" range:"100ms..10s" doc:"how long a client waits for its connection to the server"`
	CallTimeout     time.Duration `mapstructure:"call_timeout" default:"2m" range:"1s..1h" doc:"how long the server may take to answer a call"`
	CallbackTimeout time.Duration `mapstructure:"callback_timeout" default:"30s" range:"100ms..10m" doc:"how long a client may take to answer a call of the server"`
	ReservedPort    bool          `mapstructure:"reserved_port" doc:"connect from a port below 1024; needs CAP_NET_BIND_SERVICE"`
	MaxRecord       Size          `mapstructure:"max_record" default:"4MiB" range:"64KiB..64MiB" doc:"largest reply of the server"`
}

// All holds the services, listeners and connectors of a configuration, or those that operators
// added. Changed and Imports, the number of imports before, are in the store only.
type All struct {
	Services   []Service   `mapstructure:"services"`
	Listeners  []Listener  `mapstructure:"listeners"`
	Connectors []Connector `mapstructure:"connectors"`
	Changed    Changes     `mapstructure:"-"`
	Imports    uint64      `mapstructure:"-"`
}

// Kind returns nfs, echo or forward, or "" unless exactly one is set.
func (s *Service) Kind() string {
	kind, n := "", 0
	for name, set := range map[string]bool{"nfs": s.NFS != nil, "echo": s.Echo != nil, "forward": s.Forward != nil} {
		if set {
			kind, n = name, n+1
		}
	}
	if n != 1 {
		return ""
	}
	return kind
}

// Descriptors returns the number of file descriptors that the service opens for each connection
// of a client: the connection to the server of forward.
func (s *Service) Descriptors() int {
	if s.Forward != nil {
		return 1
	}
	return 0
}

// Named is a specification with a name, which is unique among its kind.
type Named interface {
	Listener | Connector | Service
	Called() string
}

// Called returns the listener's name.
func (l Listener) Called() string { return l.Name }

// Called returns the connector's name.
func (c Connector) Called() string { return c.Name }

// Called returns the service's name.
func (s Service) Called() string { return s.Name }

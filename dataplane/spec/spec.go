// Package spec declares what listeners, services and connectors are made of.
// A field is declared once, by its Go type and its tags. The configuration
// file, the environment, the API, the store, the export, the command line and
// the documentation read it from here; a new field needs one line in this
// package and one field in the .proto file.
//
// The tags of a field:
//
//	mapstructure  its key; ",squash" takes the keys of an embedded struct
//	doc           one line of documentation
//	default       the value in force when none is given
//	range         the least and the largest value, LOW..HIGH
//	values        the values that a text may have, separated by commas
//	is            what a text is: name, provider, address, optional address, target, path
//	api           its path in the messages of the API, when that is not the key
package spec

import (
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// Listener accepts RPC-over-RDMA connections for a service.
type Listener struct {
	Name     string           `mapstructure:"name" is:"name" doc:"unique among listeners and connectors; settings refer to it as the scope listener/NAME"`
	Provider string           `mapstructure:"provider" is:"provider" doc:"verbs provider: softiwarp or rdmacore"`
	Address  string           `mapstructure:"address" is:"address" doc:"HOST:PORT to accept at; port 0 lets the system choose"`
	Service  string           `mapstructure:"service" doc:"name of the service that answers"`
	RPCBind  bool             `mapstructure:"rpcbind" doc:"register the programs of the service with the rpcbind of the machine"`
	Limits   dataplane.Limits `mapstructure:"limits"`

	dataplane.Access `mapstructure:",squash"`
}

// Connector accepts ONC RPC on TCP and makes the calls over RPC-over-RDMA.
type Connector struct {
	Name     string `mapstructure:"name" is:"name" doc:"unique among listeners and connectors; settings refer to it as the scope listener/NAME"`
	Listen   string `mapstructure:"listen" is:"address" doc:"HOST:PORT where TCP clients come in; port 0 lets the system choose"`
	Provider string `mapstructure:"provider" is:"provider" doc:"verbs provider of the way out"`
	Target   string `mapstructure:"target" is:"target" doc:"HOST:PORT of the RPC-over-RDMA server"`

	DialTimeout     time.Duration `mapstructure:"dial_timeout" default:"10s" range:"100ms..10m" doc:"how long the target may take to accept the connection of a client"`
	CallbackTimeout time.Duration `mapstructure:"callback_timeout" default:"30s" range:"100ms..10m" doc:"how long a client may take to answer a call of the target"`
	MaxCalls        int           `mapstructure:"max_calls" default:"256" range:"1..4096" doc:"calls of one client in flight, within credits.max"`
	MaxReply        Size          `mapstructure:"max_reply" default:"1MiB" range:"1KiB..1088KiB" doc:"largest reply of a program without a binding"`

	Limits ConnectorLimits `mapstructure:"limits"`

	dataplane.Access `mapstructure:",squash"`
}

// ConnectorLimits bound the clients of a connector.
type ConnectorLimits struct {
	dataplane.Limits `mapstructure:",squash"`

	Memory Size `mapstructure:"memory" default:"512MiB" range:"16MiB..1TiB" api:"max_memory" doc:"memory that the calls of all clients hold together"`
}

// Service is what answers calls; exactly one of its kinds is set.
type Service struct {
	Name    string   `mapstructure:"name" is:"name" doc:"unique among services; listeners refer to it"`
	NFS     *NFS     `mapstructure:"nfs"`
	Echo    *Echo    `mapstructure:"echo"`
	Forward *Forward `mapstructure:"forward"`
}

// NFS serves a directory by NFSv3 and MOUNT.
type NFS struct {
	Path          string `mapstructure:"path" is:"path" doc:"directory to export"`
	ReadOnly      bool   `mapstructure:"read_only" doc:"refuse every change"`
	Squash        string `mapstructure:"squash" default:"none" values:"none,root,all" doc:"clients whose user is replaced by nobody when rdmad runs as root"`
	AsyncMetadata bool   `mapstructure:"async_metadata" doc:"answer changes of names and attributes before they are on the disk"`
	TCPListen     string `mapstructure:"tcp_listen" is:"optional address" doc:"HOST:PORT to serve MOUNT and NFS on TCP as well; kernel clients need it for MOUNT"`
}

// Echo is the echo program; it has no fields.
type Echo struct{}

// Forward sends calls on to an ONC RPC server on TCP.
type Forward struct {
	Address         string        `mapstructure:"address" is:"address" doc:"HOST:PORT of the server"`
	DialTimeout     time.Duration `mapstructure:"dial_timeout" default:"5s" range:"100ms..10s" doc:"how long a client waits for its connection to the server"`
	CallTimeout     time.Duration `mapstructure:"call_timeout" default:"2m" range:"1s..1h" doc:"how long the server may take to answer a call"`
	CallbackTimeout time.Duration `mapstructure:"callback_timeout" default:"30s" range:"100ms..10m" doc:"how long a client may take to answer a call of the server"`
	ReservedPort    bool          `mapstructure:"reserved_port" doc:"connect from a port below 1024; needs CAP_NET_BIND_SERVICE"`
	MaxRecord       Size          `mapstructure:"max_record" default:"4MiB" range:"64KiB..64MiB" doc:"largest reply"`
}

// All are the endpoints and services of a configuration, and of the store.
type All struct {
	Services   []Service   `mapstructure:"services"`
	Listeners  []Listener  `mapstructure:"listeners"`
	Connectors []Connector `mapstructure:"connectors"`
}

// Kind is nfs, echo, forward, or "" unless exactly one is set.
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

// Named is a specification with a name, which is unique among its kind.
type Named interface {
	Listener | Connector | Service
	Called() string
}

// Called is the listener's name.
func (l Listener) Called() string { return l.Name }

// Called is the connector's name.
func (c Connector) Called() string { return c.Name }

// Called is the service's name.
func (s Service) Called() string { return s.Name }

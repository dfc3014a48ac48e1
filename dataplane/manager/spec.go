package manager

import (
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/dataplane"
)

// ServiceSpec is a service as an operator or the configuration wants it;
// exactly one of its kinds is set.
type ServiceSpec struct {
	Name    string       `json:"name"`
	NFS     *NFSSpec     `json:"nfs,omitempty"`
	Echo    *EchoSpec    `json:"echo,omitempty"`
	Forward *ForwardSpec `json:"forward,omitempty"`
}

// NFSSpec serves a directory by NFSv3 and MOUNT.
type NFSSpec struct {
	// Path is made if it is missing and its parent is there. In the
	// configuration it may be relative; operators give it whole.
	Path     string `json:"path"`
	ReadOnly bool   `json:"read_only,omitempty"`
	// Squash is none, root, all or "" for none.
	Squash        string `json:"squash,omitempty"`
	AsyncMetadata bool   `json:"async_metadata,omitempty"`
	TCPListen     string `json:"tcp_listen,omitempty"` // host:port; "" is no TCP
}

// EchoSpec is the echo program; it has no parameters.
type EchoSpec struct{}

// ForwardSpec sends calls on to an ONC RPC server on TCP.
type ForwardSpec struct {
	Address string `json:"address"` // host:port
	// What is 0 is the default.
	DialTimeout     time.Duration `json:"dial_timeout_ns,omitempty"`
	CallTimeout     time.Duration `json:"call_timeout_ns,omitempty"`
	CallbackTimeout time.Duration `json:"callback_timeout_ns,omitempty"`
	ReservedPort    bool          `json:"reserved_port,omitempty"`
	MaxRecord       int           `json:"max_record,omitempty"` // bytes
}

// Kind is nfs, echo, forward, or "" unless exactly one is set.
func (s *ServiceSpec) Kind() string {
	kind, n := "", 0
	if s.NFS != nil {
		kind, n = "nfs", n+1
	}
	if s.Echo != nil {
		kind, n = "echo", n+1
	}
	if s.Forward != nil {
		kind, n = "forward", n+1
	}
	if n != 1 {
		return ""
	}
	return kind
}

// ListenerSpec is a listener as an operator or the configuration wants it.
type ListenerSpec struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	Address  string `json:"address"` // host:port; port 0 picks one
	Service  string `json:"service"` // by name
	// RPCBind has the service's programs registered with the machine's
	// rpcbind while the listener is there.
	RPCBind bool             `json:"rpcbind,omitempty"`
	Limits  dataplane.Limits `json:"limits,omitzero"`
	Allow   []netip.Prefix   `json:"allow,omitempty"`
	Deny    []netip.Prefix   `json:"deny,omitempty"`
}

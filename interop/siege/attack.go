package siege

import (
	"context"
	"slices"
)

// Attack is one kind of hostile peer.
type Attack struct {
	Name string
	// Does says what the attacker does, for the table in docs/security.md.
	Does string
	// Control is how rdmad's control plane listens.
	Control Control
	// Root says that rdmad and the attacker both have to be started by root.
	Root bool
	// Files is how many descriptors rdmad may have; 0 means as many as this
	// process.
	Files int
	// Deleted says that rdmad also serves a directory that is deleted.
	Deleted bool

	run func(ctx context.Context, f *field) error
}

// Control is how the control plane listens.
type Control string

// The ways to listen. On the loopback everybody is an admin. With TLS and on
// the socket, attackers are viewers.
const (
	Loopback Control = "loopback"
	TLS      Control = "tls"
	Socket   Control = "socket"
)

// Attacks lists all attacks, by port.
var Attacks = slices.Concat(rdmaAttacks, tcpAttacks, controlAttacks, metricsAttacks, portAttacks, fileAttacks)

// Find gives the attack of a name, nil if there is none.
func Find(name string) *Attack {
	i := slices.IndexFunc(Attacks, func(a Attack) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &Attacks[i]
}

// Target is what an attacker knows about rdmad.
type Target struct {
	// RDMA, TCP, Control and Metrics are addresses; Deleted is that of NFS over
	// TCP of a service whose directory is gone.
	RDMA, TCP, Control, Metrics, Deleted string
	// Export is the exported directory. Outside is one beside it that no client
	// may see.
	Export, Outside string
	// Certificates is the directory of the control plane's certificates, ""
	// without TLS.
	Certificates string
	// Scale divides the number of connections of attacks on memory, as the
	// short form gives rdmad less of it.
	Scale int
}

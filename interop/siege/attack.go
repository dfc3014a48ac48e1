package siege

import "slices"

// Attack is one kind of hostile peer.
type Attack struct {
	Name string
	// Does says what the attacker does, for the table in docs/security.md.
	Does string
	// Control is how rdmad's control plane listens.
	Control Control
	// Root means that root must start rdmad and the attacker.
	Root bool
	// Connections is limits.connections. 0 means the default.
	Connections int
	// Files is the number of descriptors that rdmad may have. 0 means as many
	// as this process.
	Files int
	// Deleted means that rdmad also exports a directory that is deleted.
	Deleted bool

	run work
}

// Control is how the control plane listens.
type Control string

// The ways to listen other than on the loopback address, where everybody is an
// admin. With TLS and on the socket, attackers are viewers.
const (
	TLS    Control = "tls"
	Socket Control = "socket"
)

// Attacks lists all attacks, by port.
var Attacks = slices.Concat(rdmaAttacks, tcpAttacks, controlAttacks, metricsAttacks, portAttacks, fileAttacks)

// Find returns the attack with a name, or nil.
func Find(name string) *Attack {
	i := slices.IndexFunc(Attacks, func(a Attack) bool { return a.Name == name })
	if i < 0 {
		return nil
	}
	return &Attacks[i]
}

// Target is the part of rdmad's configuration that an attacker knows.
type Target struct {
	// RDMA, TCP, Control and Metrics are addresses. Deleted is the NFS over TCP
	// address of a service whose directory is deleted.
	RDMA, TCP, Control, Metrics, Deleted string
	// Export is the exported directory. Outside is a directory beside it that
	// no client may see.
	Export, Outside string
	// Certificates is the directory of the control plane's certificates, or ""
	// without TLS.
	Certificates string
	// Scale divides the number of connections of attacks on memory, because
	// rdmad gets less memory in the short form.
	Scale int
}

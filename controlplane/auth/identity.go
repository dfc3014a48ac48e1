package auth

// Anonymous is the name of clients that nothing is known of. Daemon is the
// name for what rdmad does by itself. No certificate may bear either.
const (
	Anonymous = "anonymous"
	Daemon    = "rdmad"
)

// Identity is a client, as the audit log names it.
type Identity struct {
	// Name is the certificate's name, "uid N (name)" or Anonymous.
	Name string
	// Origin is the client's address and port, or "unix pid N".
	Origin string
	// Role is the client's role.
	Role Role
	// Client identifies a client for limits. Unlike Origin it is the same when
	// the client connects again.
	Client string
	// Kept means that the client may use the connections that are reserved for admins. It is
	// set for a client with proof of the admin role, and on the loopback for root and rdmad's
	// own user.
	Kept bool
}

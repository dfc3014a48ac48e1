package auth

import "context"

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
	// Origin is where it connects from: address and port, or "unix pid N".
	Origin string
	// Role is what it may do.
	Role Role
	// Client identifies a client for limits. Unlike Origin it is the same when
	// the client connects again.
	Client string
	// Kept says that the client may use the connections that are kept for admins.
	// It is set for a client with proof of the admin role, and on the loopback for
	// root and rdmad's own user.
	Kept bool
}

type contextKey struct{}

// NewContext is ctx with the client whose request it is of.
func NewContext(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, contextKey{}, id)
}

// FromContext is the client whose request ctx is of; without one, an
// anonymous client without a role.
func FromContext(ctx context.Context) Identity {
	if id, ok := ctx.Value(contextKey{}).(Identity); ok {
		return id
	}
	return Identity{Name: Anonymous}
}

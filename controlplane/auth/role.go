// Package auth says who a client of the control plane is and what it may do.
//
// Credentials identifies clients when they connect: by the kernel's word on a
// Unix socket (SO_PEERCRED), by their certificate over TLS, else as anonymous.
// Policy gives each its Role once, for as long as the connection lasts. Limiter
// keeps each to a rate.
//
// The caller decides which addresses may be listened on without TLS; this
// package takes every anonymous client that reaches it for one that was meant
// to.
package auth

import "fmt"

// Role is what a client may do. A role includes those before it.
type Role uint8

// The roles, in the order and with the numbers of rdmad.v1.Role.
const (
	None     Role = iota // nothing but health checks
	Viewer               // sees
	Operator             // changes settings, drains and closes connections
	Admin                // everything
)

var roles = [...]string{None: "none", Viewer: "viewer", Operator: "operator", Admin: "admin"}

// Roles are the names of the roles that a configuration may give.
func Roles() []string { return roles[:] }

// String names the role.
func (r Role) String() string {
	if int(r) < len(roles) {
		return roles[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// ParseRole is String's inverse.
func ParseRole(s string) (Role, bool) {
	for r, name := range roles {
		if name == s {
			return Role(r), true
		}
	}
	return None, false
}

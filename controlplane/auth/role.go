// Package auth identifies the clients of the control plane and gives them roles.
//
// Credentials identifies clients when they connect: on a Unix socket by the kernel
// (SO_PEERCRED), over TLS by their certificate, otherwise as anonymous. Policy gives each
// client its Role once, for the life of the connection. Limiter limits each client to a rate.
//
// The caller decides which addresses may be listened on without TLS. This package accepts every
// anonymous client that reaches it.
package auth

import (
	"fmt"
	"slices"
)

// Role is a set of rights of a client. A role includes the roles before it.
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

// String returns the name of the role.
func (r Role) String() string {
	if int(r) < len(roles) {
		return roles[r]
	}
	return fmt.Sprintf("role %d", uint8(r))
}

// ParseRole is the inverse of String.
func ParseRole(s string) (Role, bool) {
	i := slices.Index(roles[:], s)
	return Role(max(i, 0)), i >= 0
}

package forward

import (
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// TestNoTLS: a client that asks for TLS is denied, and its further calls get through. The upstream
// does not learn of it.
func TestNoTLS(t *testing.T) {
	u := newUpstream(t)
	c := newRig(t, loopback.New(loopback.Config{}), u.address).dial()
	up := u.accept()
	go func() { up.send(success(up.call().XID), 0) }()
	err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 4, Cred: oncrpc.Auth{Flavor: oncrpc.FlavorTLS}})
	if e, ok := errors.AsType[*oncrpc.DeniedError](err); !ok || e.Stat != oncrpc.AuthError || e.Auth != oncrpc.AuthBadCred {
		t.Errorf("AUTH_TLS: %v", err)
	}
	if err := c.Call(t.Context(), &rpcrdma.Call{Program: nfsProgram, Version: 4}); err != nil {
		t.Error(err)
	}
}

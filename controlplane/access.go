package controlplane

import (
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
)

// Access decides which clients may use the control plane. The zero value accepts root and
// rdmad's own user on a Unix socket, and everybody on the loopback.
type Access struct {
	Rules auth.Rules
	// TLS, if not nil, requires clients to have certificates. It is not for Unix sockets.
	TLS *auth.Files
	// Insecure accepts every client at an address without TLS that is not on
	// the loopback.
	Insecure bool
	Rate     auth.Rate       // zero for auth.DefaultRate
	Places   *grpcapi.Places // see grpcapi.Access
	SendTime time.Duration   // see grpcapi.Access
}

// reachable says whether other machines may reach the address.
func (a *Access) reachable() bool { return a.TLS != nil || a.Insecure }

// open looks up and reads what the rules name, and says loudly what is open.
func (a *Access) open(listen string, log *slog.Logger) (grpcapi.Access, error) {
	out := grpcapi.Access{Rate: a.Rate, Places: a.Places, SendTime: a.SendTime}
	var err error
	if out.Policy, err = auth.NewPolicy(a.Rules); err != nil {
		return out, fmt.Errorf("control.%w", err)
	}
	unix := strings.HasPrefix(listen, unixScheme)
	switch {
	case a.TLS != nil && unix:
		return out, fmt.Errorf("control.tls: %s is a Unix socket, which has no TLS", listen)
	case a.TLS != nil:
		if out.Certificates, err = auth.LoadCertificates(*a.TLS, log); err != nil {
			return out, fmt.Errorf("control.tls.%w", err)
		}
	case a.Insecure && !unix:
		log.Warn("THE CONTROL PLANE IS OPEN: control.insecure lets in everybody who reaches its address, without TLS and unidentified",
			"address", listen, "role", out.Policy.Anonymous().String())
	}
	return out, nil
}

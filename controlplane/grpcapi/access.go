package grpcapi

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/rdmad/rdmad/controlplane/auth"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// method is what a method asks of its caller.
type method struct {
	role auth.Role // auth.None for everybody
	// recorded methods change something, or show the content of messages. The
	// audit log has their requests.
	recorded bool
}

// others are the services that come with gRPC, whose methods carry no role.
var others = map[string]auth.Role{
	"grpc.health.v1.Health":                    auth.None,
	"grpc.reflection.v1.ServerReflection":      auth.Viewer,
	"grpc.reflection.v1alpha.ServerReflection": auth.Viewer,
	"grpc.channelz.v1.Channelz":                auth.Admin,
}

// unrecorded are methods of a high role that only read.
var unrecorded = []string{rdmadv1.AuditService_ListAudit_FullMethodName}

// methodsOf finds out what a server's methods ask for, by their full name.
// Those that say nothing are missing, which refuses them to everybody.
func methodsOf(services map[string]grpc.ServiceInfo) map[string]method {
	table := make(map[string]method)
	for name, info := range services {
		other, known := others[name]
		for _, m := range info.Methods {
			full := "/" + name + "/" + m.Name
			if known {
				table[full] = method{role: other, recorded: other >= auth.Operator}
			} else if role, ok := requiredRole(name, m.Name); ok {
				table[full] = method{role: role, recorded: role >= auth.Operator}
			}
		}
	}
	for _, full := range unrecorded {
		if m, ok := table[full]; ok {
			m.recorded = false
			table[full] = m
		}
	}
	return table
}

// requiredRole reads a method's option in its .proto file.
func requiredRole(service, name string) (auth.Role, bool) {
	m, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(service + "." + name))
	if err != nil || !proto.HasExtension(m.Options(), rdmadv1.E_RequiredRole) {
		return auth.None, false
	}
	role, ok := proto.GetExtension(m.Options(), rdmadv1.E_RequiredRole).(rdmadv1.Role)
	return auth.Role(role), ok && rdmadv1.Role_ROLE_VIEWER <= role && role <= rdmadv1.Role_ROLE_ADMIN
}

// call is one request to a method, by a client.
type call struct {
	method
	known  bool
	client auth.Identity
	action string // the method's name without the slash in front
}

func (g *gate) call(ctx context.Context, full string) call {
	m, ok := g.methods[full]
	return call{method: m, known: ok, client: auth.Peer(ctx), action: strings.TrimPrefix(full, "/")}
}

// allowed says whether the client's role reaches.
func (c *call) allowed() error {
	switch {
	case !c.known:
		return status.Error(codes.PermissionDenied, c.action+" is open to nobody")
	case c.client.Role >= c.role:
		return nil
	}
	return withInfo(codes.PermissionDenied,
		errors.New(c.action+" needs the role "+c.role.String()+"; "+c.client.Name+" has "+c.client.Role.String()),
		rdmadv1.ErrorReason_ERROR_REASON_ROLE,
		"role", rdmadv1.Role(c.client.Role).String(), "required_role", rdmadv1.Role(c.role).String())
}

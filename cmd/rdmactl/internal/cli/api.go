package cli

import (
	"context"

	"google.golang.org/grpc"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// api has the methods of all services of the control plane: api.GetStatus and so on.
type api struct {
	rdmadv1.AuditServiceClient
	rdmadv1.ConfigurationServiceClient
	rdmadv1.ConnectionServiceClient
	rdmadv1.ConnectorServiceClient
	rdmadv1.ConsoleServiceClient
	rdmadv1.DiagnosticsServiceClient
	rdmadv1.ExtensionServiceClient
	rdmadv1.FleetServiceClient
	rdmadv1.ListenerServiceClient
	rdmadv1.ProcessServiceClient
	rdmadv1.SettingsServiceClient
	rdmadv1.StatusServiceClient
	rdmadv1.TelemetryServiceClient
}

// unary is a method of api with one answer, such as api.GetStatus.
type unary[Q, R any] = func(api, context.Context, Q, ...grpc.CallOption) (R, error)

// streaming is a method of api with a stream of answers.
type streaming[Q, E any] = func(api, context.Context, Q, ...grpc.CallOption) (grpc.ServerStreamingClient[E], error)

func newAPI(conn grpc.ClientConnInterface) api {
	return api{
		rdmadv1.NewAuditServiceClient(conn),
		rdmadv1.NewConfigurationServiceClient(conn),
		rdmadv1.NewConnectionServiceClient(conn),
		rdmadv1.NewConnectorServiceClient(conn),
		rdmadv1.NewConsoleServiceClient(conn),
		rdmadv1.NewDiagnosticsServiceClient(conn),
		rdmadv1.NewExtensionServiceClient(conn),
		rdmadv1.NewFleetServiceClient(conn),
		rdmadv1.NewListenerServiceClient(conn),
		rdmadv1.NewProcessServiceClient(conn),
		rdmadv1.NewSettingsServiceClient(conn),
		rdmadv1.NewStatusServiceClient(conn),
		rdmadv1.NewTelemetryServiceClient(conn),
	}
}

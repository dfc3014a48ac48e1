package grpcapi

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/dataplane/clients"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// ListClients implements rdmadv1.ConnectionServiceServer.
func (s *connectionService) ListClients(_ context.Context, req *rdmadv1.ListClientsRequest) (*rdmadv1.ListClientsResponse, error) {
	list, others, n := s.plane.Clients().List(int(req.GetLimit()))
	return &rdmadv1.ListClientsResponse{Clients: messages(list, client), Others: client(&others), OthersCount: uint32(n)}, nil
}

func client(c *clients.Client) *rdmadv1.Client {
	m := &rdmadv1.Client{
		Connections: uint32(c.Connections), Calls: float64(c.Calls), Errors: float64(c.Errors),
		BytesReceived: float64(c.BytesReceived), BytesSent: float64(c.BytesSent),
		ServiceTime: durationpb.New(c.Time),
	}
	if c.Address.IsValid() {
		m.Address, m.Since = c.Address.String(), timestamppb.New(c.Since)
	}
	return m
}

package grpcapi

import (
	"context"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// ListSlowCalls implements rdmadv1.DiagnosticsServiceServer.
func (s *diagnosticsService) ListSlowCalls(context.Context, *rdmadv1.ListSlowCallsRequest) (*rdmadv1.ListSlowCallsResponse, error) {
	slow := s.plane.SlowCalls()
	return &rdmadv1.ListSlowCallsResponse{
		SlowCall: durationpb.New(slow.Limit), Total: float64(slow.Total), Calls: messages(slow.Calls, slowCall),
	}, nil
}

func slowCall(c *dataplane.SlowCall) *rdmadv1.SlowCall {
	return &rdmadv1.SlowCall{
		Arrived: timestamp(c.Arrived), ConnectionId: c.ID, Listener: c.Listener, Peer: c.PeerPort.String(), Xid: c.XID,
		Rpc:  &rdmadv1.RpcHeader{Program: c.Program, Version: c.Version, Procedure: c.Procedure, Name: c.Name()},
		Took: durationpb.New(c.Took), Receive: durationpb.New(c.Receive), RdmaRead: durationpb.New(c.Read),
		Service: durationpb.New(c.Service), Post: durationpb.New(c.Post), Completion: durationpb.New(c.Completion), Lost: c.Lost,
		Server: c.Server, Upstream: durationpb.New(c.Upstream),
	}
}

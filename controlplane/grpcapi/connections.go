package grpcapi

import (
	"context"
	"net/netip"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// connectionService implements rdmad.v1.ConnectionService.
type connectionService struct {
	rdmadv1.UnimplementedConnectionServiceServer
	plane Plane
	hub   *watch.Hub
}

// ListConnections implements rdmadv1.ConnectionServiceServer.
func (s *connectionService) ListConnections(context.Context, *rdmadv1.ListConnectionsRequest) (*rdmadv1.ListConnectionsResponse, error) {
	all := s.plane.Connections()
	res := &rdmadv1.ListConnectionsResponse{Connections: make([]*rdmadv1.Connection, len(all))}
	for i := range all {
		res.Connections[i] = connection(&all[i])
	}
	return res, nil
}

// GetConnection implements rdmadv1.ConnectionServiceServer.
func (s *connectionService) GetConnection(_ context.Context, req *rdmadv1.GetConnectionRequest) (*rdmadv1.GetConnectionResponse, error) {
	info, err := s.plane.Connection(req.GetId())
	if err != nil {
		return nil, toStatus(err)
	}
	return &rdmadv1.GetConnectionResponse{
		Connection: connection(&info),
		Transport:  transportStatistics(&info, time.Now()),
	}, nil
}

// connection is the one place where a connection becomes protobuf.
func connection(c *dataplane.ConnInfo) *rdmadv1.Connection {
	return &rdmadv1.Connection{
		Id:                  c.ID,
		Listener:            c.Listener,
		Provider:            c.Provider,
		Peer:                addrPort(c.PeerPort),
		RpcVersion:          uint32(c.RPCVersion),
		InlineSend:          c.InlineSend,
		InlineReceive:       c.InlineReceive,
		CreditsGranted:      c.CreditsGranted,
		RemoteInvalidation:  c.RemoteInvalidation,
		Calls:               float64(c.Stats.Calls),
		Replies:             float64(c.Stats.Replies),
		ReverseCalls:        float64(c.Stats.ReverseCalls),
		RdmaReads:           float64(c.Stats.RDMAReads),
		RdmaWrites:          float64(c.Stats.RDMAWrites),
		Sends:               float64(c.Stats.Sends),
		SendsWithInvalidate: float64(c.Stats.SendsWithInvalidate),
		Errors:              float64(c.Stats.Errors),
		Service:             c.Service,
		State:               connectionState(c.State),
		Local:               addrPort(c.Local),
		Since:               timestamp(c.Since),
		Receives:            float64(c.Stats.Receives),
		BytesReceived:       float64(c.Stats.BytesReceived),
		BytesSent:           float64(c.Stats.BytesSent),
	}
}

func connectionState(s string) rdmadv1.Connection_State {
	if s == dataplane.StateDraining {
		return rdmadv1.Connection_DRAINING
	}
	return rdmadv1.Connection_UP
}

func addrPort(a netip.AddrPort) string {
	if !a.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()).String()
}

// timestamp is nil for the zero time.
func timestamp(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

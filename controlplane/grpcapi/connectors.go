package grpcapi

import (
	"cmp"
	"context"

	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// connectorService implements rdmad.v1.ConnectorService.
type connectorService struct {
	rdmadv1.UnimplementedConnectorServiceServer
	plane Plane
}

// ListConnectors implements rdmadv1.ConnectorServiceServer.
func (s *connectorService) ListConnectors(_ context.Context, req *rdmadv1.ListConnectorsRequest) (*rdmadv1.ListConnectorsResponse, error) {
	after, err := afterToken(req.GetPageToken(), "connectors")
	if err != nil {
		return nil, err
	}
	size := cmp.Or(int(req.GetPageSize()), maxListeners)
	res := &rdmadv1.ListConnectorsResponse{}
	all := s.plane.Connectors()
	for i := range all {
		if all[i].Name <= after {
			continue
		}
		if len(res.Connectors) == size {
			res.NextPageToken = pageToken(res.Connectors[size-1].GetName(), "connectors")
			break
		}
		res.Connectors = append(res.Connectors, connectorMessage(&all[i]))
	}
	return res, nil
}

// connectorMessage is the one place where a connector becomes protobuf.
func connectorMessage(c *dataplane.ConnectorInfo) *rdmadv1.Connector {
	m := &rdmadv1.Connector{
		Name:              c.Name,
		Address:           addrPort(c.Address),
		Provider:          c.Provider,
		Target:            c.Target,
		State:             rdmadv1.Connector_UP,
		Connections:       uint32(c.Connections),
		Accepted:          float64(c.Accepted),
		Refused:           float64(c.Refused),
		Calls:             float64(c.TCP.Calls),
		Replies:           float64(c.TCP.Replies),
		Failed:            float64(c.TCP.Failed),
		Duplicates:        float64(c.TCP.Duplicates),
		ReverseCalls:      float64(c.TCP.Callbacks),
		ReverseUnanswered: float64(c.TCP.Unanswered),
		BytesReceived:     float64(c.TCP.BytesReceived),
		BytesSent:         float64(c.TCP.BytesSent),
		Since:             timestamp(c.Since),
		Admission:         admission(&c.Limits, &c.Access),
	}
	if c.State == dataplane.StateDraining {
		m.State = rdmadv1.Connector_DRAINING
	}
	return m
}

// admission says who may connect, and how many.
func admission(l *dataplane.Limits, a *dataplane.Access) *rdmadv1.Admission {
	return &rdmadv1.Admission{
		MaxConnections:        uint32(l.Connections),
		MaxConnectionsPerPeer: uint32(l.ConnectionsPerPeer),
		MaxHandshakes:         uint32(l.Handshakes),
		Allow:                 prefixTexts(a.Allow),
		Deny:                  prefixTexts(a.Deny),
	}
}

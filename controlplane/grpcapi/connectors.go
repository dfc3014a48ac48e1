package grpcapi

import (
	"cmp"
	"context"
	"fmt"
	"google.golang.org/protobuf/types/known/durationpb"
	"slices"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// connectorService implements rdmad.v1.ConnectorService.
type connectorService struct {
	rdmadv1.UnimplementedConnectorServiceServer
	connectors manager.ConnectorAPI
}

// ListConnectors implements rdmadv1.ConnectorServiceServer.
func (s *connectorService) ListConnectors(_ context.Context, req *rdmadv1.ListConnectorsRequest) (*rdmadv1.ListConnectorsResponse, error) {
	after, err := afterToken(req.GetPageToken(), "connectors")
	if err != nil {
		return nil, err
	}
	size := cmp.Or(int(req.GetPageSize()), maxListeners)
	res := &rdmadv1.ListConnectorsResponse{}
	all := s.connectors.Connectors()
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
func connectorMessage(c *manager.ConnectorInfo) *rdmadv1.Connector {
	m := &rdmadv1.Connector{
		Name:              c.Name,
		Address:           cmp.Or(addrPort(c.Address), c.Spec.Listen),
		Provider:          cmp.Or(c.Provider, c.Spec.Provider),
		Target:            cmp.Or(c.Target, c.Spec.Target),
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
		Source:            c.Origin.String(),
		Failure:           c.Failure,
	}
	switch c.State {
	case manager.StateDraining:
		m.State = rdmadv1.Connector_DRAINING
	case manager.StateFailed:
		m.State = rdmadv1.Connector_FAILED
	}
	return m
}

// connectorText is a connector as the audit log shows it.
func connectorText(c *manager.ConnectorInfo) string { return "connector " + spec.String(&c.Spec) }

// AddConnector implements rdmadv1.ConnectorServiceServer.
func (s *connectorService) AddConnector(ctx context.Context, req *rdmadv1.AddConnectorRequest) (*rdmadv1.AddConnectorResponse, error) {
	want := manager.ConnectorSpec{Provider: defaultProvider}
	if err := readSpec(req, &want); err != nil {
		return nil, err
	}
	info, err := s.connectors.AddConnector(ctx, want)
	if err != nil {
		return nil, toStatus(err)
	}
	audit.Note(ctx, "", connectorText(&info), 0)
	return &rdmadv1.AddConnectorResponse{Connector: connectorMessage(&info)}, nil
}

// RemoveConnector implements rdmadv1.ConnectorServiceServer.
func (s *connectorService) RemoveConnector(ctx context.Context, req *rdmadv1.RemoveConnectorRequest) (*rdmadv1.RemoveConnectorResponse, error) {
	all := s.connectors.Connectors()
	i := slices.IndexFunc(all, func(c manager.ConnectorInfo) bool { return c.Spec.Name == req.GetName() })
	if i < 0 {
		return nil, toStatus(fmt.Errorf("connector %s: %w", req.GetName(), dataplane.ErrNotFound))
	}
	removed, err := s.connectors.RemoveConnector(req.GetName(), drainTime(req.GetDeadline()))
	if err != nil {
		return nil, toStatus(err)
	}
	audit.Note(ctx, connectorText(&all[i]), "", 0)
	return &rdmadv1.RemoveConnectorResponse{Drained: uint32(removed.Drained), Cut: uint32(removed.Cut)}, nil
}

// admission says who may connect, and how many.
func admission(l *dataplane.Limits, a *dataplane.Access) *rdmadv1.Admission {
	m := &rdmadv1.Admission{
		MaxConnections:        uint32(l.Connections),
		MaxConnectionsPerPeer: uint32(l.ConnectionsPerPeer),
		MaxHandshakes:         uint32(l.Handshakes),
		Allow:                 prefixTexts(a.Allow),
		Deny:                  prefixTexts(a.Deny),
	}
	if l.Idle > 0 {
		m.Idle = durationpb.New(l.Idle)
	}
	return m
}

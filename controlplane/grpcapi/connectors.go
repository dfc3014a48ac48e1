package grpcapi

import (
	"cmp"
	"context"
	"strings"

	"github.com/rdmad/rdmad/controlplane/specproto"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// connectorService implements rdmad.v1.ConnectorService.
type connectorService struct {
	rdmadv1.UnimplementedConnectorServiceServer
	manager manager.API
}

// ListConnectors implements rdmadv1.ConnectorServiceServer.
func (s *connectorService) ListConnectors(_ context.Context, req *rdmadv1.ListConnectorsRequest) (*rdmadv1.ListConnectorsResponse, error) {
	all, next, err := page(req, "connectors", s.manager.Connectors, connectorMessage)
	return &rdmadv1.ListConnectorsResponse{Connectors: all, NextPageToken: next}, err
}

// connectorMessage is the one place where a connector becomes protobuf.
func connectorMessage(c *manager.ConnectorInfo) *rdmadv1.Connector {
	s := c.Spec
	if c.Live.Name != "" {
		s.Provider, s.Target, s.Limits.Limits, s.Access = c.Live.Provider, c.Live.Target, c.Live.Limits, c.Live.Access
	}
	m := &rdmadv1.Connector{
		Address:           cmp.Or(addrPort(c.Live.Address), s.Listen),
		State:             rdmadv1.Connector_State(rdmadv1.Connector_State_value[strings.ToUpper(c.State)]),
		Connections:       uint32(c.Live.Connections),
		Accepted:          float64(c.Live.Accepted),
		Refused:           float64(c.Live.Refused),
		Calls:             float64(c.Live.TCP.Calls),
		Replies:           float64(c.Live.TCP.Replies),
		Failed:            float64(c.Live.TCP.Failed),
		Duplicates:        float64(c.Live.TCP.Duplicates),
		ReverseCalls:      float64(c.Live.TCP.Callbacks),
		ReverseUnanswered: float64(c.Live.TCP.Unanswered),
		BytesReceived:     float64(c.Live.TCP.BytesReceived),
		BytesSent:         float64(c.Live.TCP.BytesSent),
		Since:             timestamp(c.Live.Since),
		Admission:         &rdmadv1.Admission{},
		Source:            c.Origin.String(),
		Failure:           c.Failure,
		Changed:           apiPaths(c.Spec, c.Changed),
	}
	specproto.Write(&s, m)
	return m
}

// AddConnector implements rdmadv1.ConnectorServiceServer.
func (s *connectorService) AddConnector(ctx context.Context, req *rdmadv1.AddConnectorRequest) (*rdmadv1.AddConnectorResponse, error) {
	m, err := add(ctx, "connector", s.manager.Connectors, req, spec.Connector{Provider: defaultProvider}, connectorMessage)
	return &rdmadv1.AddConnectorResponse{Connector: m}, err
}

// UpdateConnector implements rdmadv1.ConnectorServiceServer.
func (s *connectorService) UpdateConnector(ctx context.Context, req *rdmadv1.UpdateConnectorRequest) (*rdmadv1.UpdateConnectorResponse, error) {
	m, _, err := update(ctx, "connector", s.manager.Connectors, req, false, connectorMessage)
	return &rdmadv1.UpdateConnectorResponse{Connector: m}, err
}

// RemoveConnector implements rdmadv1.ConnectorServiceServer.
func (s *connectorService) RemoveConnector(ctx context.Context, req *rdmadv1.RemoveConnectorRequest) (*rdmadv1.RemoveConnectorResponse, error) {
	drained, cut, err := remove(ctx, "connector", s.manager.Connectors, req)
	return &rdmadv1.RemoveConnectorResponse{Drained: drained, Cut: cut}, err
}

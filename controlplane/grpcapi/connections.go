package grpcapi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// connectionService implements rdmad.v1.ConnectionService.
type connectionService struct {
	rdmadv1.UnimplementedConnectionServiceServer
	plane    Plane
	hub      *watch.Hub
	listings listings
}

// ListConnections implements rdmadv1.ConnectionServiceServer.
func (s *connectionService) ListConnections(_ context.Context, req *rdmadv1.ListConnectionsRequest) (*rdmadv1.ListConnectionsResponse, error) {
	fields, err := newReadMask(req.GetReadMask(), &rdmadv1.Connection{})
	if err != nil {
		return nil, err
	}
	peers, err := parsePeer("peer", req.GetPeer())
	if err != nil {
		return nil, err
	}
	filters := []string{"connections", req.GetListener(), req.GetPeer()}
	after, err := afterToken(req.GetPageToken(), filters...)
	if err != nil {
		return nil, err
	}
	size := cmp.Or(int(req.GetPageSize()), maxConnections)
	res := &rdmadv1.ListConnectionsResponse{}
	all := s.plane.Connections()
	for i := range all {
		c := &all[i]
		switch {
		case dataplane.CompareID(c.ID, after) <= 0, req.GetListener() != "" && c.Listener != req.GetListener(),
			peers.IsValid() && !peers.Contains(c.PeerPort.Addr().Unmap().WithZone("")):
			continue
		case len(res.Connections) == size:
			res.NextPageToken = pageToken(res.Connections[size-1].GetId(), filters...)
		}
		if res.NextPageToken != "" {
			break
		}
		res.Connections = append(res.Connections, connection(c))
	}
	for _, m := range res.GetConnections() {
		fields.prune(m)
	}
	return res, nil
}

// maxConnections is the most connections of one answer: some 400 bytes each,
// they fit in it.
const maxConnections = 32 << 10

// parsePeer reads an address or CIDR that a request's field gives; the zero
// Prefix for "".
func parsePeer(field, text string) (netip.Prefix, error) {
	if text == "" {
		return netip.Prefix{}, nil
	}
	prefix, ok := settings.ParsePrefix(text)
	if !ok {
		return netip.Prefix{}, invalidField(field, fmt.Sprintf("%q is not an address or CIDR, such as 192.0.2.0/24", text))
	}
	return prefix, nil
}

// GetConnection implements rdmadv1.ConnectionServiceServer.
func (s *connectionService) GetConnection(_ context.Context, req *rdmadv1.GetConnectionRequest) (*rdmadv1.GetConnectionResponse, error) {
	fields, err := newReadMask(req.GetReadMask(), &rdmadv1.Connection{})
	if err != nil {
		return nil, err
	}
	info, err := s.plane.Connection(req.GetId())
	if err != nil {
		return nil, err
	}
	p := &info.Padding
	res := &rdmadv1.GetConnectionResponse{
		Connection: connection(&info),
		Transport:  transportStatistics(&info, time.Now()),

		Padding:        &rdmadv1.Padding{Align: p.Align, Taken: p.Taken, Sent: float64(p.Sent), Received: float64(p.Received)},
		InlineSendHeld: info.SendHeld,
		Configuration:  configuration(&info),

		Characteristics: characteristics(&info),
	}
	fields.prune(res.GetConnection())
	return res, nil
}

// defaultDrain is how long calls in flight may take when a request doesn't
// say.
const defaultDrain = 30 * time.Second

// DrainConnection implements rdmadv1.ConnectionServiceServer. A drain continues even if its
// client disconnects.
func (s *connectionService) DrainConnection(ctx context.Context, req *rdmadv1.DrainConnectionRequest) (*rdmadv1.DrainConnectionResponse, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTime(req.GetDeadline()))
	defer cancel()
	var cut *dataplane.CutError
	err := s.plane.DrainConnection(ctx, req.GetId())
	if err != nil && !errors.As(err, &cut) {
		return nil, err
	}
	return &rdmadv1.DrainConnectionResponse{Cut: cut != nil}, nil
}

// CloseConnection implements rdmadv1.ConnectionServiceServer.
func (s *connectionService) CloseConnection(_ context.Context, req *rdmadv1.CloseConnectionRequest) (*rdmadv1.CloseConnectionResponse, error) {
	return &rdmadv1.CloseConnectionResponse{}, s.plane.CloseConnection(req.GetId())
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
		CallsInProgress:     uint32(c.InFlight),
		Extensions:          extensions(c),
		Client:              addrPort(c.Client),
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
var timestamp = fleetproto.Stamp

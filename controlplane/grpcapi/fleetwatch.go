package grpcapi

import (
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/controlplane/fleet/fleetproto"
	"github.com/rdmad/rdmad/controlplane/fleet/store"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// WatchNodes implements rdmadv1.FleetServiceServer.
func (s *fleetService) WatchNodes(req *rdmadv1.WatchNodesRequest, stream grpc.ServerStreamingServer[rdmadv1.WatchNodesResponse]) error {
	from, err := position(req.GetResumeToken())
	if err != nil {
		return err
	}
	v := &nodeView{stream: stream}
	if req.GetChangesOnly() {
		v.sent = make(map[string]*rdmadv1.FleetNode)
	}
	err = s.fleet.WatchNodes(stream.Context(), from, v.changed)
	if stream.Context().Err() != nil || v.failed != nil {
		return statusOf(err).Err()
	}
	return fleetStatus(err)
}

// resumeToken and position are inverse.
func resumeToken(p store.Position) string { return fmt.Sprintf("%x-%d", p.Cluster, p.Revision) }

func position(token string) (p store.Position, err error) {
	if token == "" {
		return p, nil
	}
	if _, err := fmt.Sscanf(token, "%x-%d", &p.Cluster, &p.Revision); err != nil || resumeToken(p) != token {
		return p, invalidField("resume_token", "is not one of WatchNodes; begin again without it")
	}
	return p, nil
}

// nodeView is what was sent to a client.
type nodeView struct {
	stream grpc.ServerStreamingServer[rdmadv1.WatchNodesResponse]
	sent   map[string]*rdmadv1.FleetNode // without load and time; nil if these count as changes
	failed error                         // of stream
}

func (v *nodeView) changed(c *store.NodeChanges) error {
	var out []*rdmadv1.WatchNodesResponse
	for _, problem := range c.Problems {
		out = append(out, &rdmadv1.WatchNodesResponse{Type: rdmadv1.WatchNodesResponse_UNREADABLE, Reason: problem.Error()})
	}
	for _, n := range c.Nodes {
		m := fleetproto.NodeMessage(n)
		switch {
		case !v.news(m) && !c.Listed:
		case c.Listed:
			out = append(out, &rdmadv1.WatchNodesResponse{Type: rdmadv1.WatchNodesResponse_EXISTING, Node: m})
		default:
			out = append(out, &rdmadv1.WatchNodesResponse{Type: rdmadv1.WatchNodesResponse_CHANGED, Node: m})
		}
	}
	for _, name := range c.Gone {
		delete(v.sent, name)
		out = append(out, &rdmadv1.WatchNodesResponse{Type: rdmadv1.WatchNodesResponse_REMOVED, Node: &rdmadv1.FleetNode{Name: name}})
	}
	if c.Listed {
		out = append(out, &rdmadv1.WatchNodesResponse{Type: rdmadv1.WatchNodesResponse_LISTED})
	}
	if len(out) > 0 {
		out[len(out)-1].ResumeToken = resumeToken(c.At)
	}
	for _, m := range out {
		m.Time = timestamppb.New(time.Now())
		if v.failed = v.stream.Send(m); v.failed != nil {
			return v.failed
		}
	}
	return nil
}

// news reports whether a node differs from what was sent, and remembers it.
func (v *nodeView) news(n *rdmadv1.FleetNode) bool {
	if v.sent == nil {
		return true
	}
	c := proto.CloneOf(n)
	if s := c.GetStatus(); s != nil {
		s.Time, s.CallsPerSecond, s.ErrorsPerSecond, s.P99, s.Connections = nil, 0, 0, nil, 0
	}
	old := v.sent[c.GetName()]
	v.sent[c.GetName()] = c
	return !proto.Equal(old, c)
}

package grpcapi

import (
	"context"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/specproto"
	"github.com/rdmad/rdmad/dataplane/connlimit"
	"github.com/rdmad/rdmad/dataplane/metrics"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// GetLimits implements rdmadv1.ListenerServiceServer.
func (s *listenerService) GetLimits(context.Context, *rdmadv1.GetLimitsRequest) (*rdmadv1.GetLimitsResponse, error) {
	return &rdmadv1.GetLimitsResponse{Limits: s.limits(), Changed: s.changedLimits()}, nil
}

// SetLimits implements rdmadv1.ListenerServiceServer.
func (s *listenerService) SetLimits(ctx context.Context, req *rdmadv1.SetLimitsRequest) (*rdmadv1.SetLimitsResponse, error) {
	if s.manager.Limits == nil {
		return nil, status.Error(codes.Unimplemented, "this rdmad cannot change its limits")
	}
	now, all := s.limits(), limitFields()
	names := all.filter(func(f *selected) bool { return f.Path != spec.NoLimit })
	change, err := names.named("update_mask", req.GetUpdateMask().GetPaths())
	if err != nil {
		return nil, err
	}
	unset, err := names.named("unset", req.GetUnset())
	if err != nil {
		return nil, err
	}
	if len(change) == 0 {
		change = all.filter(func(f *selected) bool { return changesLimit(req, now, f.at) })
	}
	before, after, err := s.manager.Limits.Set(ctx, func(l *spec.Limits) { takeLimits(l, req.GetLimits(), change) }, unset.has)
	if err != nil {
		return nil, limitsStatus(err)
	}
	audit.Note(ctx, limitsText(&before), limitsText(&after), 0)
	return &rdmadv1.SetLimitsResponse{Limits: s.limits(), Changed: s.changedLimits()}, nil
}

// limitsText is what the audit log shows: the limits that are given, as in the configuration file.
// The others have their defaults.
func limitsText(l *spec.Limits) string { return strings.TrimSpace("limits " + spec.String(l)) }

// limitFields are the fields of limits, and their paths in Limits.
func limitFields() (out selection) {
	for f := range spec.Of[spec.Limits]() {
		path := strings.TrimPrefix(f.API(), admissionPrefix)
		out = append(out, selected{f, strings.Replace(path, ".connections", ".max_connections", 1)})
	}
	return out
}

// changesLimit says whether a request without a mask changes a limit. Some fields are never
// absent; these are sent back as they were unless they are to change. A request that unsets
// limits leaves them out.
func changesLimit(req *rdmadv1.SetLimitsRequest, now *rdmadv1.Limits, path string) bool {
	in, fd := specproto.At(req.GetLimits().ProtoReflect(), path, false)
	if fd == nil || fd.HasPresence() || len(req.GetUnset()) > 0 {
		return fd != nil && in.Has(fd)
	}
	old, _ := specproto.At(now.ProtoReflect(), path, false)
	return !in.Get(fd).Equal(old.Get(fd))
}

// takeLimits takes fields from a message. An absent one gets its default.
func takeLimits(l *spec.Limits, m *rdmadv1.Limits, fields selection) {
	root := reflect.ValueOf(l)
	for _, f := range fields {
		to := f.In(root, true)
		to.SetZero()
		if in, fd := specproto.At(m.ProtoReflect(), f.at, false); fd != nil && in.Has(fd) {
			_ = specproto.ReadValue(to, in.Get(fd), f.at) // only lists can be wrong, and there are none
		}
	}
}

// limitsStatus turns errors of limits into a status that names the fields of a request.
func limitsStatus(err error) error {
	mistakes := mistakesIn(err)
	if mistakes == nil {
		return err
	}
	all := limitFields()
	fields := make([]*errdetails.BadRequest_FieldViolation, len(mistakes))
	for i, one := range mistakes {
		at := one.Field
		for _, f := range all {
			if f.Path == one.Field {
				at = f.at
			}
		}
		fields[i] = &errdetails.BadRequest_FieldViolation{Field: "limits." + at, Description: one.Text}
	}
	return badRequest(fields)
}

// changedLimits are the fields of Limits that operators changed.
func (s *listenerService) changedLimits() (out []string) {
	if s.manager.Limits == nil {
		return nil
	}
	_, paths := s.manager.Limits.Get()
	for _, f := range limitFields() {
		if slices.Contains(paths, f.Path) {
			out = append(out, f.at)
		}
	}
	return out
}

// limits are those in force.
func (s *listenerService) limits() *rdmadv1.Limits {
	l, tcp := s.plane.Limits(), s.plane.TCPLimits()
	m := &rdmadv1.Limits{
		MaxMemory:             proto.Float64(float64(s.plane.Memory())),
		MaxConnections:        uint32(l.Connections),
		MaxConnectionsPerPeer: uint32(l.ConnectionsPerPeer),
		MaxHandshakes:         uint32(l.Handshakes),
		Idle:                  durationpb.New(l.Idle),

		MaxTcpConnections:        proto.Uint32(uint32(tcp.Connections)),
		MaxTcpConnectionsPerPeer: proto.Uint32(uint32(tcp.ConnectionsPerPeer)),
		TcpIdle:                  durationpb.New(tcp.Idle),
	}
	if s.manager.Limits != nil {
		p, _ := s.manager.Limits.Get()
		m.Control, m.Metrics = portLimits(p.Control.Over(DefaultClients())), portLimits(p.Metrics.Over(metrics.DefaultScrapers()))
		m.Metrics.Reserved = nil
	}
	return m
}

func portLimits(l connlimit.Limits) *rdmadv1.PortLimits {
	return &rdmadv1.PortLimits{
		MaxConnections: proto.Uint32(uint32(l.Total)), MaxConnectionsPerPeer: proto.Uint32(uint32(l.PerKey)),
		Reserved: proto.Uint32(uint32(l.Reserved)), Idle: durationpb.New(l.Idle),
	}
}

package grpcapi_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// TestPortLimits: what a request leaves out stays, and of a request that is refused
// nothing is done.
func TestPortLimits(t *testing.T) {
	c := rdmadv1.NewListenerServiceClient(start(t, smallPlane(), nil, 16).client)
	set := func(l *rdmadv1.Limits) (*rdmadv1.Limits, error) {
		res, err := c.SetLimits(t.Context(), &rdmadv1.SetLimitsRequest{Limits: l})
		return res.GetLimits(), err
	}
	got, err := set(&rdmadv1.Limits{
		MaxConnections: 8, Control: &rdmadv1.PortLimits{MaxConnections: proto.Uint32(40)}, Metrics: &rdmadv1.PortLimits{Idle: durationpb.New(time.Minute)},
	})
	if err != nil {
		t.Fatal(err)
	}
	if p := got.GetControl(); p.GetMaxConnections() != 40 || p.GetMaxConnectionsPerPeer() != 10 || p.GetReserved() != 10 || p.GetIdle().AsDuration() != 5*time.Minute {
		t.Errorf("control: %v", p)
	}
	if p := got.GetMetrics(); p.GetMaxConnections() != 64 || p.GetMaxConnectionsPerPeer() != 16 || p.Reserved != nil || p.GetIdle().AsDuration() != time.Minute {
		t.Errorf("metrics: %v", p)
	}
	for _, bad := range []*rdmadv1.Limits{
		{Control: &rdmadv1.PortLimits{MaxConnections: proto.Uint32(65537)}},
		{Control: &rdmadv1.PortLimits{Reserved: proto.Uint32(40)}},
		{Control: &rdmadv1.PortLimits{MaxConnections: proto.Uint32(3)}, Metrics: &rdmadv1.PortLimits{Idle: durationpb.New(time.Millisecond)}},
		{Control: &rdmadv1.PortLimits{Idle: durationpb.New(-time.Second)}},
		{Metrics: &rdmadv1.PortLimits{Idle: durationpb.New(1000 * time.Hour)}},
		{Metrics: &rdmadv1.PortLimits{Reserved: proto.Uint32(1)}},
	} {
		bad.MaxConnections = 9
		if _, err := set(bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
	now, err := c.GetLimits(t.Context(), &rdmadv1.GetLimitsRequest{})
	if err != nil || !proto.Equal(now.GetLimits(), got) {
		t.Errorf("%v, %v; want %v", now.GetLimits(), err, got)
	}
	got, err = set(&rdmadv1.Limits{Control: &rdmadv1.PortLimits{MaxConnections: proto.Uint32(0), Reserved: proto.Uint32(3)}})
	if p := got.GetControl(); err != nil || p.GetMaxConnections() != 256 || p.GetReserved() != 3 || got.GetMetrics().GetIdle().AsDuration() != time.Minute {
		t.Errorf("%v, %v", got, err)
	}
}

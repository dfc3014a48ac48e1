package grpcapi_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func mask(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }

// TestUpdateFields: an update changes what its mask names, also to nothing, or else what the
// request has. unset gives the file's values back.
func TestUpdateFields(t *testing.T) {
	c := rdmadv1.NewListenerServiceClient(start(t, smallPlane(), nil, 16).client)
	for _, step := range []struct {
		req                     *rdmadv1.UpdateListenerRequest
		address, allow, changed string
	}{
		{&rdmadv1.UpdateListenerRequest{Address: proto.String("127.0.0.1:7001")}, "127.0.0.1:7001", "", "address"},
		{&rdmadv1.UpdateListenerRequest{Admission: &rdmadv1.Admission{Allow: []string{"192.0.2.7"}, MaxHandshakes: 3}}, "127.0.0.1:7001", "192.0.2.7/32", "address admission.max_handshakes admission.allow"},
		{&rdmadv1.UpdateListenerRequest{
			Address: proto.String("127.0.0.1:7002"), Admission: &rdmadv1.Admission{MaxConnections: 7, Allow: []string{"192.0.2.8"}}, UpdateMask: mask("allow"),
		}, "127.0.0.1:7001", "192.0.2.8/32", "address admission.max_handshakes admission.allow"},
		{&rdmadv1.UpdateListenerRequest{UpdateMask: mask("admission")}, "127.0.0.1:7001", "", "address"},
		{&rdmadv1.UpdateListenerRequest{Unset: []string{"address"}, Admission: &rdmadv1.Admission{Deny: []string{"::/0"}}, UpdateMask: mask("admission.deny")}, "127.0.0.1:20049", "", "admission.deny"},
		{&rdmadv1.UpdateListenerRequest{Unset: []string{"*"}}, "127.0.0.1:20049", "", ""},
	} {
		step.req.Name = "nfs"
		res, err := c.UpdateListener(t.Context(), step.req)
		l := res.GetListener()
		if err != nil || l.GetAddress() != step.address || strings.Join(l.GetAdmission().GetAllow(), " ") != step.allow || strings.Join(l.GetChanged(), " ") != step.changed || l.GetSource() != "config" {
			t.Errorf("%v: %v, %v", step.req, l, err)
		}
	}
	for what, req := range map[string]*rdmadv1.UpdateListenerRequest{
		"nothing":       {},
		"another field": {UpdateMask: mask("state")},
		"unset nothing": {Unset: []string{"name"}},
		"long deadline": {UpdateMask: mask("allow"), Deadline: durationpb.New(2 * time.Hour)},
	} {
		req.Name = "nfs"
		if _, err := c.UpdateListener(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestUpdateEveryFault: an error has all faults, each with its field.
func TestUpdateEveryFault(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	_, err := rdmadv1.NewListenerServiceClient(b.client).UpdateListener(t.Context(), &rdmadv1.UpdateListenerRequest{
		Name: "nfs", Address: proto.String("here"), Admission: &rdmadv1.Admission{Idle: durationpb.New(time.Millisecond)},
	})
	if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), `address: "here" is not HOST:PORT; limits.idle: 1ms is out of range`) {
		t.Errorf("error %v", err)
	}
}

// TestSetSomeLimits: a mask names the limits to change, and the answer names those that differ
// from the file's. A request of an older client changes only what it does not send back.
func TestSetSomeLimits(t *testing.T) {
	c := rdmadv1.NewListenerServiceClient(start(t, smallPlane(), nil, 16).client)
	for _, step := range []struct {
		req     *rdmadv1.SetLimitsRequest
		changed string
	}{
		{&rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{MaxConnections: 4096, MaxHandshakes: 256, MaxConnectionsPerPeer: 5}}, "max_connections_per_peer"},
		{&rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{MaxConnections: 9, MaxHandshakes: 9}, UpdateMask: mask("max_handshakes")}, "max_connections_per_peer max_handshakes"},
		{&rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{Control: &rdmadv1.PortLimits{MaxConnections: proto.Uint32(40)}}, UpdateMask: mask("control.max_connections")}, "max_connections_per_peer max_handshakes control.max_connections"},
		{&rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{TcpIdle: durationpb.New(time.Minute)}, Unset: []string{"max_handshakes", "control"}}, "max_connections_per_peer tcp_idle"},
		{&rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{}, UpdateMask: mask("max_connections_per_peer")}, "tcp_idle"},
		{&rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{}, Unset: []string{"*"}}, ""},
	} {
		res, err := c.SetLimits(t.Context(), step.req)
		now, _ := c.GetLimits(t.Context(), &rdmadv1.GetLimitsRequest{})
		if err != nil || strings.Join(res.GetChanged(), " ") != step.changed || strings.Join(now.GetChanged(), " ") != step.changed {
			t.Errorf("%v: %v, %v", step.req, res.GetChanged(), err)
		}
	}
	for _, bad := range []*rdmadv1.SetLimitsRequest{
		{Limits: &rdmadv1.Limits{}, UpdateMask: mask("idle_time")},
		{Limits: &rdmadv1.Limits{}, Unset: []string{"speed"}},
	} {
		if _, err := c.SetLimits(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// TestUpdatesAddUp: a later update of other fields keeps each field that was set before.
func TestUpdatesAddUp(t *testing.T) {
	c := rdmadv1.NewListenerServiceClient(start(t, smallPlane(), nil, 16).client)
	for _, req := range []*rdmadv1.UpdateListenerRequest{
		{Name: "nfs", Rpcbind: proto.Bool(true)},
		{Name: "nfs", Admission: &rdmadv1.Admission{MaxHandshakes: 3}},
	} {
		res, err := c.UpdateListener(t.Context(), req)
		if l := res.GetListener(); err != nil || !l.GetRpcbind() || l.GetChanged()[0] != "rpcbind" {
			t.Errorf("%v: %v, %v", req, l, err)
		}
	}
}

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

func TestListenersComeAndGo(t *testing.T) {
	c := rdmadv1.NewListenerServiceClient(start(t, smallPlane(), nil, 16).client)
	ctx := t.Context()
	if _, err := c.AddService(ctx, &rdmadv1.AddServiceRequest{Name: "test", Kind: &rdmadv1.AddServiceRequest_Echo{Echo: &rdmadv1.EchoService{}}}); err != nil {
		t.Fatal(err)
	}
	added, err := c.AddListener(ctx, &rdmadv1.AddListenerRequest{
		Name: "test", Address: "127.0.0.1:0", Service: "test",
		Admission: &rdmadv1.Admission{MaxConnections: 7, Allow: []string{"10.0.0.0/8", "192.0.2.7"}, Deny: []string{"10.9.0.0/16"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	l := added.GetListener()
	if l.GetAddress() != "127.0.0.1:40000" || l.GetSource() != "runtime" || l.GetProvider() != "softiwarp" ||
		l.GetAdmission().GetMaxConnections() != 7 || strings.Join(l.GetAdmission().GetAllow(), " ") != "10.0.0.0/8 192.0.2.7/32" {
		t.Errorf("%v", l)
	}
	all, err := c.ListListeners(ctx, &rdmadv1.ListListenersRequest{PageSize: 1})
	if err != nil || len(all.GetListeners()) != 1 || all.GetListeners()[0].GetName() != "nfs" || all.GetNextPageToken() == "" {
		t.Fatalf("%v, %v", all, err)
	}
	all, err = c.ListListeners(ctx, &rdmadv1.ListListenersRequest{PageSize: 1, PageToken: all.GetNextPageToken()})
	if err != nil || all.GetListeners()[0].GetName() != "test" || all.GetNextPageToken() != "" {
		t.Fatalf("%v, %v", all, err)
	}
	if _, err := c.RemoveService(ctx, &rdmadv1.RemoveServiceRequest{Name: "test"}); status.Code(err) != codes.FailedPrecondition ||
		!strings.Contains(detail(status.Convert(err)), "by:test") {
		t.Errorf("a service in use: %v %s", err, detail(status.Convert(err)))
	}
	if _, err := c.RemoveListener(ctx, &rdmadv1.RemoveListenerRequest{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.RemoveService(ctx, &rdmadv1.RemoveServiceRequest{Name: "test"}); err != nil {
		t.Fatal(err)
	}
	res, err := c.RemoveListener(ctx, &rdmadv1.RemoveListenerRequest{Name: "nfs"})
	if err != nil || res.GetDrained() != 2 {
		t.Errorf("%v, %v", res, err)
	}
}

func TestUpdateListener(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	c := rdmadv1.NewListenerServiceClient(b.client)
	mask := func(paths ...string) *fieldmaskpb.FieldMask { return &fieldmaskpb.FieldMask{Paths: paths} }
	update := func(m *fieldmaskpb.FieldMask, a *rdmadv1.Admission, disconnect bool) *rdmadv1.UpdateListenerResponse {
		t.Helper()
		return have(c.UpdateListener(t.Context(), &rdmadv1.UpdateListenerRequest{Name: "nfs", Admission: a, UpdateMask: m, Disconnect: disconnect}))(t)
	}
	update(nil, &rdmadv1.Admission{MaxConnections: 10, MaxConnectionsPerPeer: 2, MaxHandshakes: 3, Allow: []string{"192.0.2.0/24"}}, false)
	a := update(mask("max_connections_per_peer"), &rdmadv1.Admission{MaxConnections: 99, MaxConnectionsPerPeer: 5}, false).GetListener().GetAdmission()
	if a.GetMaxConnections() != 10 || a.GetMaxConnectionsPerPeer() != 5 || a.GetMaxHandshakes() != 3 || len(a.GetAllow()) != 1 {
		t.Errorf("one field of many: %v", a)
	}
	res := update(mask("deny"), &rdmadv1.Admission{Deny: []string{"192.0.2.8"}}, true)
	if left := b.plane.Connections(); res.GetDisconnected() != 1 || len(left) != 1 || left[0].ID != "1" {
		t.Errorf("%v, left are %v", res, left)
	}
}

func TestListenersRefused(t *testing.T) {
	c := rdmadv1.NewListenerServiceClient(start(t, smallPlane(), nil, 16).client)
	ctx := t.Context()
	add := func(r *rdmadv1.AddListenerRequest) error { _, err := c.AddListener(ctx, r); return err }
	service := func(r *rdmadv1.AddServiceRequest) error { _, err := c.AddService(ctx, r); return err }
	nfs := func(n *rdmadv1.NfsService) *rdmadv1.AddServiceRequest {
		return &rdmadv1.AddServiceRequest{Name: "new", Kind: &rdmadv1.AddServiceRequest_Nfs{Nfs: n}}
	}
	_, removed := c.RemoveListener(ctx, &rdmadv1.RemoveListenerRequest{Name: "none"})
	_, updated := c.UpdateListener(ctx, &rdmadv1.UpdateListenerRequest{Name: "none"})
	_, masked := c.UpdateListener(ctx, &rdmadv1.UpdateListenerRequest{Name: "nfs", UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"name"}}})
	_, limits := c.SetLimits(ctx, &rdmadv1.SetLimitsRequest{})
	for what, r := range map[string]struct {
		err  error
		code codes.Code
	}{
		"taken name":       {add(&rdmadv1.AddListenerRequest{Name: "nfs", Address: "127.0.0.1:1", Service: "export"}), codes.AlreadyExists},
		"bad name":         {add(&rdmadv1.AddListenerRequest{Name: "a b", Address: "127.0.0.1:1", Service: "export"}), codes.InvalidArgument},
		"no address":       {add(&rdmadv1.AddListenerRequest{Name: "a", Service: "export"}), codes.InvalidArgument},
		"unknown service":  {add(&rdmadv1.AddListenerRequest{Name: "a", Address: "127.0.0.1:1", Service: "none"}), codes.NotFound},
		"unknown provider": {add(&rdmadv1.AddListenerRequest{Name: "a", Provider: "magic", Address: "127.0.0.1:1", Service: "export"}), codes.NotFound},
		"bad allow": {add(&rdmadv1.AddListenerRequest{
			Name: "a", Address: "127.0.0.1:1", Service: "export", Admission: &rdmadv1.Admission{Allow: []string{"10.0.0.0/8", "everybody"}},
		}), codes.InvalidArgument},
		"no kind":        {service(&rdmadv1.AddServiceRequest{Name: "new"}), codes.InvalidArgument},
		"relative path":  {service(nfs(&rdmadv1.NfsService{Path: "export"})), codes.InvalidArgument},
		"bad squash":     {service(nfs(&rdmadv1.NfsService{Path: "/srv", Squash: "some"})), codes.InvalidArgument},
		"no directory":   {service(nfs(&rdmadv1.NfsService{Path: "/missing/export"})), codes.FailedPrecondition},
		"remove no one":  {removed, codes.NotFound},
		"update no one":  {updated, codes.NotFound},
		"unknown field":  {masked, codes.InvalidArgument},
		"limits missing": {limits, codes.InvalidArgument},
	} {
		if status.Code(r.err) != r.code {
			t.Errorf("%s: %v, want %s", what, r.err, r.code)
		}
	}
}

// TestTCPLimits: a limit that a request leaves out does not change. An older
// rdmactl leaves out the limits that it does not know.
func TestTCPLimits(t *testing.T) {
	c := rdmadv1.NewListenerServiceClient(start(t, smallPlane(), nil, 16).client)
	set := func(l *rdmadv1.Limits) (*rdmadv1.Limits, error) {
		res, err := c.SetLimits(t.Context(), &rdmadv1.SetLimitsRequest{Limits: l})
		return res.GetLimits(), err
	}
	for _, step := range []struct {
		set         *rdmadv1.Limits
		total, peer uint32
		idle        time.Duration
	}{
		{&rdmadv1.Limits{}, 1024, 128, 6 * time.Minute},
		{&rdmadv1.Limits{MaxTcpConnections: proto.Uint32(7), TcpIdle: durationpb.New(time.Minute)}, 7, 128, time.Minute},
		{&rdmadv1.Limits{MaxTcpConnectionsPerPeer: proto.Uint32(3)}, 7, 3, time.Minute},
		{&rdmadv1.Limits{MaxTcpConnections: proto.Uint32(0), TcpIdle: durationpb.New(0)}, 1024, 3, 6 * time.Minute},
	} {
		l, err := set(step.set)
		if err != nil || l.GetMaxTcpConnections() != step.total || l.GetMaxTcpConnectionsPerPeer() != step.peer || l.GetTcpIdle().AsDuration() != step.idle {
			t.Errorf("%v: %v, %v", step.set, l, err)
		}
	}
	for _, bad := range []*rdmadv1.Limits{
		{MaxTcpConnections: proto.Uint32(70000)}, {MaxTcpConnectionsPerPeer: proto.Uint32(70000)},
		{TcpIdle: durationpb.New(time.Second)}, {TcpIdle: durationpb.New(-time.Minute)}, {TcpIdle: durationpb.New(48 * time.Hour)},
	} {
		if _, err := set(bad); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestLimits(t *testing.T) {
	c := rdmadv1.NewListenerServiceClient(start(t, smallPlane(), nil, 16).client)
	res, err := c.SetLimits(t.Context(), &rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{
		MaxConnections: 8, MaxConnectionsPerPeer: 2, MaxHandshakes: 4, MaxMemory: proto.Float64(1 << 30),
	}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.GetLimits(t.Context(), &rdmadv1.GetLimitsRequest{})
	if err != nil || got.GetLimits().String() != res.GetLimits().String() || got.GetLimits().GetMaxHandshakes() != 4 || got.GetLimits().GetMaxMemory() != 1<<30 {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := c.SetLimits(t.Context(), &rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{MaxMemory: proto.Float64(1)}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a byte of memory: %v", err)
	}
	if res, err := c.SetLimits(t.Context(), &rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{}}); err != nil || res.GetLimits().GetMaxMemory() != 1<<30 {
		t.Errorf("memory not given: %v, %v", res, err)
	}
}

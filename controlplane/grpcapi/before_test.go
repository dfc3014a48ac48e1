package grpcapi

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/manager"
	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// overtaken are listeners that another client changes in the instant before each change.
type overtaken struct {
	manager.Set[spec.Listener, dataplane.ListenerInfo]
	by func(*spec.Listener)
}

func (o overtaken) Update(ctx context.Context, name string, change func(*spec.Listener), u manager.UpdateOptions) (manager.Updated[spec.Listener, dataplane.ListenerInfo], int, error) {
	if updated, n, err := o.Set.Update(ctx, name, o.by, manager.UpdateOptions{}); err != nil {
		return updated, n, err
	}
	return o.Set.Update(ctx, name, change, u)
}

func (o overtaken) Remove(ctx context.Context, name string, drain time.Duration) (manager.Removal[spec.Listener], error) {
	if _, _, err := o.Set.Update(ctx, name, o.by, manager.UpdateOptions{}); err != nil {
		return manager.Removal[spec.Listener]{}, err
	}
	return o.Set.Remove(ctx, name, drain)
}

// overtakenLimits are limits that another client changes in the instants before and after each
// change.
type overtakenLimits struct{ manager.LimitsSet }

func (o overtakenLimits) Set(ctx context.Context, change func(*spec.Limits), unset func(*spec.Field) bool) (before, now spec.Limits, err error) {
	other := func(n int) error {
		_, _, err := o.LimitsSet.Set(ctx, func(l *spec.Limits) { l.Connections = n }, nil)
		return err
	}
	if err = other(7); err == nil {
		before, now, err = o.LimitsSet.Set(ctx, change, unset)
	}
	if err == nil {
		err = other(9)
	}
	return before, now, err
}

// TestAuditBefore: of changes in the same instant, the later one begins with what the earlier
// one made.
func TestAuditBefore(t *testing.T) {
	s, _ := newServer(t, Access{})
	plane := &planetest.Plane{}
	plane.Listen("nfs", "127.0.0.1:20049")
	m := planetest.NewManager(plane)
	m.Listeners = overtaken{m.Listeners, func(l *spec.Listener) { l.Limits.Connections = 7 }}
	m.Limits = overtakenLimits{m.Limits}
	l := &listenerService{plane: plane, manager: m}
	do := func(method string, call func(context.Context) error) {
		t.Helper()
		_, err := s.gate.unary(as(t, auth.Admin), &rdmadv1.GetStatusRequest{}, &grpc.UnaryServerInfo{FullMethod: method},
			func(ctx context.Context, _ any) (any, error) { return nil, call(ctx) })
		if err != nil {
			t.Fatal(err)
		}
	}
	do(rdmadv1.ListenerService_UpdateListener_FullMethodName, func(ctx context.Context) error {
		_, err := l.UpdateListener(ctx, &rdmadv1.UpdateListenerRequest{Name: "nfs", Admission: &rdmadv1.Admission{MaxConnections: 8}})
		return err
	})
	do(rdmadv1.ListenerService_RemoveListener_FullMethodName, func(ctx context.Context) error {
		_, err := l.RemoveListener(ctx, &rdmadv1.RemoveListenerRequest{Name: "nfs"})
		return err
	})
	do(rdmadv1.ListenerService_SetLimits_FullMethodName, func(ctx context.Context) error {
		_, err := l.SetLimits(ctx, &rdmadv1.SetLimitsRequest{Limits: &rdmadv1.Limits{MaxConnections: 8}, UpdateMask: &fieldmaskpb.FieldMask{Paths: []string{"max_connections"}}})
		return err
	})
	res, err := (&auditService{gate: s.gate}).ListAudit(t.Context(), &rdmadv1.ListAuditRequest{})
	if err != nil {
		t.Fatal(err)
	}
	const listener = "listener name=nfs provider=softiwarp address=127.0.0.1:20049 service=export limits.connections="
	var got []string
	for _, e := range res.GetEntries() {
		got = append(got, e.GetBefore()+" > "+e.GetAfter())
	}
	want := []string{"limits connections=7 > limits connections=8", listener + "7 > ", listener + "7 > " + listener + "8"}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

// TestNobodyWaitsForTheLog: a change whose client gives up while its entry is written is not made, and the log says so.
func TestNobodyWaitsForTheLog(t *testing.T) {
	s, _ := newServer(t, Access{})
	ctx, cancel := context.WithCancel(as(t, auth.Admin))
	cancel()
	_, err := s.gate.unary(ctx, &rdmadv1.GetStatusRequest{}, &grpc.UnaryServerInfo{FullMethod: rdmadv1.ListenerService_SetLimits_FullMethodName},
		func(context.Context, any) (any, error) {
			t.Error("the change is made")
			return nil, nil
		})
	if status.Code(err) != codes.Canceled {
		t.Error(err)
	}
	res, err := (&auditService{gate: s.gate}).ListAudit(t.Context(), &rdmadv1.ListAuditRequest{})
	if err != nil || len(res.GetEntries()) != 1 || res.GetEntries()[0].GetOutcome() != "CANCELLED" {
		t.Errorf("%v, %v", res, err)
	}
}

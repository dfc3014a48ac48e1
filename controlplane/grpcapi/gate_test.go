package grpcapi

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/watch"
	"github.com/rdmad/rdmad/dataplane/conditions"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
)

// newServer makes a server that isn't served, with an audit log.
func newServer(t *testing.T, a Access) (*Server, *audit.Log) {
	t.Helper()
	plane := &planetest.Plane{}
	initial := rpcrdma.DefaultSettings()
	log := slog.New(slog.DiscardHandler)
	store, err := desired.New(plane, log, &initial, 0)
	if err != nil {
		t.Fatal(err)
	}
	hub := watch.NewHub(plane, store, log, 16)
	t.Cleanup(hub.Close)
	if a.Policy, err = auth.NewPolicy(auth.Rules{}); err != nil {
		t.Fatal(err)
	}
	a.Places = NewPlaces(DefaultClients())
	s, err := New(Config{
		Plane: plane, Manager: planetest.NewManager(plane), Store: store, Hub: hub, Logger: log,
		Registerer: prometheus.NewRegistry(), Started: time.Now(), Access: a, Conditions: conditions.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
	})
	l, err := audit.Open(audit.Config{Dir: t.TempDir(), Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s.Record(l)
	return s, l
}

// as is a context of a request by a client with a role.
func as(t *testing.T, role auth.Role) context.Context {
	id := auth.Identity{Name: "ada", Origin: "here", Role: role, Client: "ada " + role.String()}
	return peer.NewContext(t.Context(), &peer.Peer{AuthInfo: auth.Info{Identity: id}})
}

// asked is a stream whose client sends one empty message.
type asked struct {
	grpc.ServerStream
	ctx context.Context
}

func (a asked) Context() context.Context { return a.ctx }
func (asked) RecvMsg(any) error          { return nil }

// TestEveryMethodHasARole: of everything in the .proto files, so that a
// method to come can't be forgotten.
func TestEveryMethodHasARole(t *testing.T) {
	n := 0
	protoregistry.GlobalFiles.RangeFilesByPackage("rdmad.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				if role, ok := requiredRole(string(s.FullName()), string(m.Name())); !ok || role == auth.None {
					t.Errorf("%s has no role", m.FullName())
				}
				n++
			}
		}
		return true
	})
	if n < 30 {
		t.Errorf("%d methods", n)
	}
}

// TestRoleMatrix: every method that is served, asked by every role.
func TestRoleMatrix(t *testing.T) {
	s, _ := newServer(t, Access{Rate: auth.Rate{PerSecond: 1e6, Burst: 1e6}})
	served := 0
	for service, info := range s.grpc.GetServiceInfo() {
		for _, m := range info.Methods {
			full := "/" + service + "/" + m.Name
			want, known := others[service]
			if !known {
				want, known = requiredRole(service, m.Name)
			}
			if !known {
				t.Errorf("%s is open to nobody", full)
			}
			for role := auth.None; role <= auth.Admin; role++ {
				reached := false
				var err error
				if m.IsClientStream || m.IsServerStream {
					err = s.gate.stream(nil, asked{ctx: as(t, role)}, &grpc.StreamServerInfo{FullMethod: full},
						func(any, grpc.ServerStream) error { reached = true; return nil })
				} else {
					_, err = s.gate.unary(as(t, role), &rdmadv1.GetStatusRequest{}, &grpc.UnaryServerInfo{FullMethod: full},
						func(context.Context, any) (any, error) { reached = true; return nil, nil })
				}
				if may := role >= want; reached != may || may != (err == nil) || !may && status.Code(err) != codes.PermissionDenied {
					t.Errorf("%s as %v: reached %v, %v", full, role, reached, err)
				}
				served++
			}
		}
	}
	if served < 120 {
		t.Errorf("%d cases", served)
	}
}

// TestMessagesOfAStreamHaveARate: a client that asks on in one stream has its rate all the same.
func TestMessagesOfAStreamHaveARate(t *testing.T) {
	s, _ := newServer(t, Access{Rate: auth.Rate{PerSecond: 1e-6, Burst: 5}})
	n := 0
	err := s.gate.stream(nil, asked{ctx: as(t, auth.Viewer)}, &grpc.StreamServerInfo{FullMethod: reflectionpb.ServerReflection_ServerReflectionInfo_FullMethodName},
		func(_ any, ss grpc.ServerStream) (err error) {
			for n < 100 && err == nil {
				if err = ss.RecvMsg(new(reflectionpb.ServerReflectionRequest)); err == nil {
					n++
				}
			}
			return err
		})
	if n != 5 || status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%d messages, then %v", n, err)
	}
}

func TestMethodWithoutARole(t *testing.T) {
	s, _ := newServer(t, Access{})
	_, err := s.gate.unary(as(t, auth.Admin), &rdmadv1.GetStatusRequest{}, &grpc.UnaryServerInfo{FullMethod: "/rdmad.v1.New/Do"},
		func(context.Context, any) (any, error) { t.Error("reached"); return nil, nil })
	if status.Code(err) != codes.PermissionDenied {
		t.Errorf("%v", err)
	}
}

// listed is the audit log as a client gets it, one line an entry.
func listed(t *testing.T, s *Server, req *rdmadv1.ListAuditRequest) (lines []string, res *rdmadv1.ListAuditResponse) {
	t.Helper()
	service := auditService{gate: s.gate}
	res, err := service.ListAudit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range res.GetEntries() {
		if e.GetTime() == nil || e.GetOrigin() != "here" {
			t.Errorf("%v", e)
		}
		lines = append(lines, strings.TrimSpace(strings.Join([]string{
			e.GetActor(), e.GetRole().String(), e.GetAction(), strings.ReplaceAll(e.GetRequest(), " ", ""),
			e.GetBefore() + ">" + e.GetAfter(), e.GetOutcome(), e.GetReason(),
		}, " ")))
	}
	return lines, res
}

// TestOthersAreAudited: requests to gRPC's own services that need a high role are recorded, too.
func TestOthersAreAudited(t *testing.T) {
	s, _ := newServer(t, Access{})
	const action = "grpc.channelz.v1.Channelz/GetServers"
	for role, want := range map[auth.Role]codes.Code{auth.Operator: codes.PermissionDenied, auth.Admin: codes.OK} {
		_, err := s.gate.unary(as(t, role), &channelzpb.GetServersRequest{}, &grpc.UnaryServerInfo{FullMethod: "/" + action},
			func(context.Context, any) (any, error) { return nil, nil })
		if status.Code(err) != want {
			t.Errorf("%s: %v", role, err)
		}
	}
	got, _ := listed(t, s, &rdmadv1.ListAuditRequest{})
	slices.Sort(got)
	if len(got) != 2 || got[0] != "ada ROLE_ADMIN "+action+" {} > OK" || !strings.HasPrefix(got[1], "ada ROLE_OPERATOR "+action+" {} > PERMISSION_DENIED") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
}

func TestChangesAreAudited(t *testing.T) {
	s, _ := newServer(t, Access{})
	set := &grpc.UnaryServerInfo{FullMethod: rdmadv1.SettingsService_SetSettings_FullMethodName}
	do := func(role auth.Role, req proto.Message, err error) {
		t.Helper()
		_, got := s.gate.unary(as(t, role), req, set, func(ctx context.Context, _ any) (any, error) {
			if id := auth.Peer(ctx); id.Name != "ada" || id.Role != role {
				t.Errorf("the service sees %+v", id)
			}
			if err == nil {
				audit.Note(ctx, "credits.max=64", "credits.max=7", 5)
			}
			return nil, err
		})
		if err != nil && !errors.Is(got, err) {
			t.Errorf("%v", got)
		}
	}
	low, seven := uint32(0), uint32(7)
	good := &rdmadv1.SetSettingsRequest{Settings: &rdmadv1.Settings{Credits: &rdmadv1.CreditsSettings{Max: &seven}}}
	do(auth.Operator, good, nil)
	do(auth.Operator, good, status.Error(codes.Aborted, "stale"))
	do(auth.Viewer, good, nil)
	do(auth.Operator, &rdmadv1.SetSettingsRequest{Settings: &rdmadv1.Settings{Credits: &rdmadv1.CreditsSettings{Max: &low}}}, nil)
	// Reading isn't recorded, and neither is reading the log.
	for _, name := range []string{rdmadv1.StatusService_GetStatus_FullMethodName, rdmadv1.AuditService_ListAudit_FullMethodName} {
		if _, err := s.gate.unary(as(t, auth.Admin), &rdmadv1.GetStatusRequest{}, &grpc.UnaryServerInfo{FullMethod: name},
			func(context.Context, any) (any, error) { return nil, nil }); err != nil {
			t.Error(err)
		}
	}
	got, _ := listed(t, s, &rdmadv1.ListAuditRequest{})
	const action, request = "rdmad.v1.SettingsService/SetSettings", `{"settings":{"credits":{"max":7}}}`
	want := []string{
		"ada ROLE_OPERATOR " + action + ` {"settings":{"credits":{"max":0}}} > INVALID_ARGUMENT credits.max`,
		"ada ROLE_VIEWER " + action + " " + request + " > PERMISSION_DENIED " + action + " needs the role operator; ada has viewer",
		"ada ROLE_OPERATOR " + action + " " + request + " > ABORTED stale",
		"ada ROLE_OPERATOR " + action + " " + request + " credits.max=64>credits.max=7 OK",
	}
	for i := range want {
		if len(got) != len(want) || !strings.HasPrefix(got[i], want[i]) {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	first, page := listed(t, s, &rdmadv1.ListAuditRequest{PageSize: 3, Actor: "ada"})
	second, last := listed(t, s, &rdmadv1.ListAuditRequest{PageSize: 3, Actor: "ada", PageToken: page.GetNextPageToken()})
	if len(first) != 3 || len(second) != 1 || last.GetNextPageToken() != "" {
		t.Errorf("pages of %d and %d", len(first), len(second))
	}
	if none, _ := listed(t, s, &rdmadv1.ListAuditRequest{Actor: "bob"}); none != nil {
		t.Errorf("bob did %v", none)
	}
	service := auditService{gate: s.gate}
	for _, token := range []string{"x", page.GetNextPageToken()} {
		if _, err := service.ListAudit(t.Context(), &rdmadv1.ListAuditRequest{PageToken: token}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("token of another request: %v", err)
		}
	}
}

// TestRefusedAgainAndAgain: a client without the right to change anything can't fill the audit log.
func TestRefusedAgainAndAgain(t *testing.T) {
	s, _ := newServer(t, Access{})
	for range 300 {
		_, err := s.gate.unary(as(t, auth.Viewer), &rdmadv1.SetSettingsRequest{}, &grpc.UnaryServerInfo{FullMethod: rdmadv1.SettingsService_SetSettings_FullMethodName}, nil)
		if status.Code(err) != codes.PermissionDenied {
			t.Fatal(err)
		}
	}
	if lines, _ := listed(t, s, &rdmadv1.ListAuditRequest{PageSize: 1000}); len(lines) != 10 {
		t.Errorf("%d entries", len(lines))
	}
}

func TestChangeThatCannotBeAuditedIsNotMade(t *testing.T) {
	s, l := newServer(t, Access{})
	l.Close()
	_, err := s.gate.unary(as(t, auth.Admin), &rdmadv1.SetSettingsRequest{}, &grpc.UnaryServerInfo{FullMethod: rdmadv1.SettingsService_SetSettings_FullMethodName},
		func(context.Context, any) (any, error) { t.Error("made"); return nil, nil })
	if status.Code(err) != codes.Internal || !strings.HasPrefix(status.Convert(err).Message(), "nothing was changed: ") {
		t.Errorf("%v", err)
	}
	err = s.gate.stream(nil, asked{ctx: as(t, auth.Operator)}, &grpc.StreamServerInfo{FullMethod: rdmadv1.DiagnosticsService_Trace_FullMethodName},
		func(_ any, ss grpc.ServerStream) error { return ss.RecvMsg(&rdmadv1.TraceRequest{}) })
	if status.Code(err) != codes.Internal {
		t.Errorf("%v", err)
	}
}

// TestClientThatGaveUp: a change that is not made because nobody waits for it is no fault of rdmad.
func TestClientThatGaveUp(t *testing.T) {
	for want, err := range map[codes.Code]error{codes.Canceled: context.Canceled, codes.DeadlineExceeded: context.DeadlineExceeded} {
		if got := status.Code(toStatus(err)); got != want {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestStreamsAreAuditedFromTheirStart(t *testing.T) {
	s, _ := newServer(t, Access{})
	trace := &grpc.StreamServerInfo{FullMethod: rdmadv1.DiagnosticsService_Trace_FullMethodName}
	var during []string
	err := s.gate.stream(nil, asked{ctx: as(t, auth.Operator)}, trace, func(_ any, ss grpc.ServerStream) error {
		if id := auth.Peer(ss.Context()); id.Name != "ada" {
			t.Errorf("the service sees %+v", id)
		}
		if err := ss.RecvMsg(&rdmadv1.TraceRequest{}); err != nil {
			return err
		}
		during, _ = listed(t, s, &rdmadv1.ListAuditRequest{})
		return context.Canceled // the client has seen enough
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.gate.stream(nil, asked{ctx: as(t, auth.Viewer)}, trace, nil); status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
	const action = "ada ROLE_OPERATOR rdmad.v1.DiagnosticsService/Trace {} > "
	if len(during) != 1 || during[0] != action+audit.Started {
		t.Errorf("meanwhile %v", during)
	}
	after, _ := listed(t, s, &rdmadv1.ListAuditRequest{})
	if len(after) != 2 || !strings.HasPrefix(after[0], "ada ROLE_VIEWER rdmad.v1.DiagnosticsService/Trace  > PERMISSION_DENIED") || after[1] != action+"OK" {
		t.Errorf("afterwards\n%s", strings.Join(after, "\n"))
	}
}

func TestRateOfEachClient(t *testing.T) {
	s, _ := newServer(t, Access{Rate: auth.Rate{PerSecond: 1e-3, Burst: 3}})
	set := &grpc.UnaryServerInfo{FullMethod: rdmadv1.SettingsService_ConfirmSettings_FullMethodName}
	ask := func(role auth.Role) error {
		_, err := s.gate.unary(as(t, role), &rdmadv1.ConfirmSettingsRequest{Revision: 1}, set,
			func(context.Context, any) (any, error) { return nil, nil })
		return err
	}
	for range 3 {
		if err := ask(auth.Admin); err != nil {
			t.Error(err)
		}
	}
	for range 5 {
		err := ask(auth.Admin)
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(errorInfo(err), "ERROR_REASON_RATE") || !strings.Contains(errorInfo(err), "retry_after_seconds") {
			t.Errorf("%v", err)
		}
	}
	if err := ask(auth.Operator); err != nil {
		t.Errorf("another client: %v", err)
	}
	err := s.gate.stream(nil, asked{ctx: as(t, auth.Admin)}, &grpc.StreamServerInfo{FullMethod: rdmadv1.DiagnosticsService_Trace_FullMethodName}, nil)
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a stream: %v", err)
	}
	lines, _ := listed(t, s, &rdmadv1.ListAuditRequest{})
	if len(lines) != 5 || !strings.Contains(strings.Join(lines, "\n"), "RESOURCE_EXHAUSTED too many requests") {
		t.Errorf("told of\n%s", strings.Join(lines, "\n"))
	}
}

func errorInfo(err error) string {
	var all []string
	for _, d := range status.Convert(err).Proto().GetDetails() {
		all = append(all, d.String())
	}
	return strings.Join(all, " ")
}

// stuckStream takes no message until its call ends.
type stuckStream struct {
	grpc.ServerStream
	ended chan struct{}
}

func (s stuckStream) SendMsg(any) error {
	<-s.ended
	return errors.New("the call has ended")
}

func TestUnreadStreamIsDropped(t *testing.T) {
	ss := stuckStream{ended: make(chan struct{})}
	handler := make(chan error, 1)
	err := endStreams(time.Millisecond, nil)(nil, ss, nil, func(_ any, ss grpc.ServerStream) error {
		err := ss.SendMsg(nil)
		handler <- err
		return err
	})
	if status.Code(err) != codes.ResourceExhausted || !strings.Contains(errorInfo(err), "ERROR_REASON_SLOW_READER") {
		t.Errorf("%v", err)
	}
	close(ss.ended)
	if err := <-handler; err == nil {
		t.Error("the handler wasn't told")
	}
}

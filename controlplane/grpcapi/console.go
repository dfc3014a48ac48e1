package grpcapi

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/console/session"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// Console is the web console.
type Console struct {
	Sessions *session.Store
	// Address returns the address that begins a session with a token.
	Address func(token string) string
}

var errConsoleOff = status.Error(codes.FailedPrecondition, "the console is off; set console.listen in rdmad's configuration file, and start rdmad again")

// consoleService implements rdmad.v1.ConsoleService.
type consoleService struct {
	rdmadv1.UnimplementedConsoleServiceServer
	console *Console // nil while it is off
}

// OpenConsole implements rdmadv1.ConsoleServiceServer.
func (s *consoleService) OpenConsole(ctx context.Context, _ *rdmadv1.OpenConsoleRequest) (*rdmadv1.OpenConsoleResponse, error) {
	if s.console == nil {
		return nil, errConsoleOff
	}
	token, expires, err := s.console.Sessions.Token(auth.Peer(ctx))
	if errors.Is(err, session.ErrFull) {
		return nil, withInfo(codes.ResourceExhausted, err, rdmadv1.ErrorReason_ERROR_REASON_LIMIT)
	}
	if err != nil {
		return nil, err
	}
	return &rdmadv1.OpenConsoleResponse{Address: s.console.Address(token), Expires: timestamppb.New(expires)}, nil
}

// ListConsoleSessions implements rdmadv1.ConsoleServiceServer.
func (s *consoleService) ListConsoleSessions(context.Context, *rdmadv1.ListConsoleSessionsRequest) (*rdmadv1.ListConsoleSessionsResponse, error) {
	if s.console == nil {
		return &rdmadv1.ListConsoleSessionsResponse{}, nil
	}
	return &rdmadv1.ListConsoleSessionsResponse{Sessions: messages(s.console.Sessions.List(), consoleSession)}, nil
}

func consoleSession(c *session.Info) *rdmadv1.ConsoleSession {
	return &rdmadv1.ConsoleSession{
		Id: c.ID, Actor: c.Client.Name, Role: rdmadv1.Role(c.Client.Role), Browser: c.Browser,
		Began: timestamppb.New(c.Began), Used: timestamppb.New(c.Used), Expires: timestamppb.New(c.Expires),
	}
}

// EndConsoleSession implements rdmadv1.ConsoleServiceServer.
func (s *consoleService) EndConsoleSession(ctx context.Context, req *rdmadv1.EndConsoleSessionRequest) (*rdmadv1.EndConsoleSessionResponse, error) {
	if s.console == nil || !s.console.Sessions.End(req.GetId()) {
		return nil, status.Error(codes.NotFound, "no console session "+req.GetId()+"; rdmactl console sessions lists them")
	}
	audit.Note(ctx, "console session "+req.GetId(), "", 0)
	return &rdmadv1.EndConsoleSessionResponse{}, nil
}

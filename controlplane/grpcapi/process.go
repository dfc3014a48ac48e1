package grpcapi

import (
	"context"
	"log/slog"
	"slices"

	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/loglevel"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// processService implements rdmad.v1.ProcessService.
type processService struct {
	rdmadv1.UnimplementedProcessServiceServer
	level *loglevel.Level
	log   *slog.Logger
}

// levels are the levels of the log by their number in the API.
var levels = []slog.Level{
	rdmadv1.LogLevel_DEBUG: slog.LevelDebug, rdmadv1.LogLevel_INFO: slog.LevelInfo,
	rdmadv1.LogLevel_WARN: slog.LevelWarn, rdmadv1.LogLevel_ERROR: slog.LevelError,
}

// GetLogLevel implements rdmadv1.ProcessServiceServer.
func (s *processService) GetLogLevel(context.Context, *rdmadv1.GetLogLevelRequest) (*rdmadv1.GetLogLevelResponse, error) {
	return &rdmadv1.GetLogLevelResponse{LogLevel: logLevel(s.level.Get())}, nil
}

// SetLogLevel implements rdmadv1.ProcessServiceServer.
func (s *processService) SetLogLevel(ctx context.Context, req *rdmadv1.SetLogLevelRequest) (*rdmadv1.SetLogLevelResponse, error) {
	client := auth.Peer(ctx)
	after := loglevel.Setting{Level: levels[req.GetLevel()], Origin: "operator " + client.Name}
	before := s.level.Set(after)
	from, to := loglevel.Name(before.Level), loglevel.Name(after.Level)
	s.log.Info("log level changed", "from", from, "to", to, "actor", client.Name)
	audit.Note(ctx, "log_level="+from, "log_level="+to, 0)
	return &rdmadv1.SetLogLevelResponse{LogLevel: logLevel(after), Before: logLevel(before)}, nil
}

func logLevel(s loglevel.Setting) *rdmadv1.LogLevel {
	return &rdmadv1.LogLevel{Level: rdmadv1.LogLevel_Level(slices.Index(levels[1:], s.Level) + 1), Origin: s.Origin}
}

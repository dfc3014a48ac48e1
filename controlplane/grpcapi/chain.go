package grpcapi

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	grpcauth "github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/dataplane/loglimit"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// chain is the interceptors of every call, the outermost first: the refusal of those
// without a place, metrics, log, recovery, the gate, and for streams the one that
// ends them. A panic is counted and logged like
// any other error. One of the handler is recovered from within the gate, so that
// the audit log has it, too.
func chain(metrics *grpcprom.ServerMetrics, log *slog.Logger, g *gate, e edge, sendTime time.Duration, stopping <-chan struct{}) (
	[]grpc.UnaryServerInterceptor, []grpc.StreamServerInterceptor,
) {
	logger := logging.LoggerFunc(func(ctx context.Context, level logging.Level, msg string, fields ...any) {
		kept := logging.Fields(slices.Clone(fields))
		kept.Delete("peer.address") // on a Unix socket it is empty
		log.Log(ctx, slog.Level(level), msg, kept...)
	})
	logOpts := []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(level),
		logging.WithFieldsFromContext(func(ctx context.Context) logging.Fields {
			id := auth.Peer(ctx)
			return logging.Fields{"actor", id.Name, loglimit.PeerKey, id.Origin}
		}),
		logging.WithDisableLoggingFields(logging.ComponentFieldKey, logging.MethodTypeFieldKey, logging.SystemTag[0]),
	}
	recoverOpt := recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
		log.ErrorContext(ctx, "control plane call panicked", loglimit.PeerKey, auth.Peer(ctx).Origin, "panic", p, "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "internal error; rdmad's log has the details")
	})
	return []grpc.UnaryServerInterceptor{
			grpcauth.UnaryServerInterceptor(placed),
			metrics.UnaryServerInterceptor(),
			logging.UnaryServerInterceptor(logger, logOpts...),
			recovery.UnaryServerInterceptor(recoverOpt),
			g.unary,
			e.unary,
			recovery.UnaryServerInterceptor(recoverOpt),
		}, []grpc.StreamServerInterceptor{
			grpcauth.StreamServerInterceptor(placed),
			metrics.StreamServerInterceptor(),
			logging.StreamServerInterceptor(logger, logOpts...),
			recovery.StreamServerInterceptor(recoverOpt),
			g.stream,
			endStreams(sendTime, stopping),
			e.stream,
			recovery.StreamServerInterceptor(recoverOpt),
		}
}

// edge makes statuses of the native errors of handlers. It refuses requests to the fleet
// while there is none.
type edge struct{ inFleet bool }

// status makes a status of a handler's error, ofFleet if the handler is of the fleet.
func (e edge) status(method string, ofFleet func(error) error, handle func() error) error {
	switch {
	case !strings.HasPrefix(method, "/"+rdmadv1.FleetService_ServiceDesc.ServiceName+"/"):
		return toStatus(handle())
	case !e.inFleet:
		return errNoFleet
	}
	return ofFleet(handle())
}

func (e edge) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (res any, err error) {
	err = e.status(info.FullMethod, fleetStatus, func() error {
		res, err = next(ctx, req)
		return err
	})
	return res, err
}

// stream gives the end of a stream whose client went away, or whose time is over, the code
// that it has to the client: handlers return their context's error as it is, and the log
// would take that for a fault of ours. Streams of the fleet know which errors are etcd's, and which their own.
func (e edge) stream(srv any, ss grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	return e.status(info.FullMethod, toStatus, func() error {
		err := next(srv, ss)
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return status.FromContextError(err).Err()
		}
		return err
	})
}

// level makes what operators do wrong visible, what they do right quiet, and
// our own faults loud.
func level(c codes.Code) logging.Level {
	switch c {
	case codes.OK, codes.Canceled:
		return logging.LevelDebug
	case codes.Unknown, codes.Internal, codes.DataLoss:
		return logging.LevelError
	case codes.ResourceExhausted, codes.DeadlineExceeded, codes.Unavailable:
		return logging.LevelWarn
	}
	return logging.LevelInfo
}

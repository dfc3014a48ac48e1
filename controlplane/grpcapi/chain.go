package grpcapi

import (
	"context"
	"log/slog"
	"runtime/debug"

	"buf.build/go/protovalidate"
	grpcprom "github.com/grpc-ecosystem/go-grpc-middleware/providers/prometheus"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// chain is what every call passes, the outermost first: metrics, log,
// recovery, validation. A panic is counted and logged like any other error.
func chain(metrics *grpcprom.ServerMetrics, log *slog.Logger, v protovalidate.Validator) (
	[]grpc.UnaryServerInterceptor, []grpc.StreamServerInterceptor,
) {
	logger := logging.LoggerFunc(func(ctx context.Context, level logging.Level, msg string, fields ...any) {
		log.Log(ctx, slog.Level(level), msg, fields...)
	})
	logOpts := []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(level),
		logging.WithDisableLoggingFields(logging.ComponentFieldKey, logging.MethodTypeFieldKey, logging.SystemTag[0]),
	}
	recoverOpt := recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
		log.ErrorContext(ctx, "control plane call panicked", "panic", p, "stack", string(debug.Stack()))
		return status.Error(codes.Internal, "internal error; rdmad's log has the details")
	})
	return []grpc.UnaryServerInterceptor{
			metrics.UnaryServerInterceptor(),
			logging.UnaryServerInterceptor(logger, logOpts...),
			recovery.UnaryServerInterceptor(recoverOpt),
			validateUnary(v),
		}, []grpc.StreamServerInterceptor{
			metrics.StreamServerInterceptor(),
			logging.StreamServerInterceptor(logger, logOpts...),
			recovery.StreamServerInterceptor(recoverOpt),
			validateStream(v),
		}
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

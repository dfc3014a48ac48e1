package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// snapshot is rdmad at one moment.
type snapshot struct {
	status *rdmadv1.GetStatusResponse
	conns  []*rdmadv1.Connection
	sample *rdmadv1.WatchTelemetryResponse // nil before the first
}

// offline says that rdmad doesn't answer. It is asked again.
type offline struct {
	err error
	at  time.Time
}

// retryAfter is how long to wait before rdmad is asked again.
const retryAfter = time.Second

// listed are the fields of connections that the table needs; the rates come
// with the samples.
var listed = []string{"id", "listener", "peer", "service", "state", "errors", "credits_granted", "calls_in_progress"}

// feed brings snapshots, one with each sample.
type feed struct {
	o           *Options
	status      rdmadv1.StatusServiceClient
	connections rdmadv1.ConnectionServiceClient
	telemetry   rdmadv1.TelemetryServiceClient
}

func newFeed(o *Options) *feed {
	return &feed{o, rdmadv1.NewStatusServiceClient(o.Conn), rdmadv1.NewConnectionServiceClient(o.Conn), rdmadv1.NewTelemetryServiceClient(o.Conn)}
}

// feedAll follows rdmad until ctx ends. When rdmad goes away it says so and
// tries again.
func feedAll(ctx context.Context, conn *grpc.ClientConn, follow func(context.Context, func(tea.Msg)) error, send func(tea.Msg)) {
	for {
		err := follow(ctx, send)
		if ctx.Err() != nil {
			return
		}
		send(offline{err, time.Now()})
		select {
		case <-ctx.Done():
			return
		case <-time.After(retryAfter):
		}
		conn.ResetConnectBackoff()
	}
}

var errEnded = errors.New("rdmad ended the stream")

// follow sends snapshots as long as rdmad answers.
func (f *feed) follow(ctx context.Context, send func(tea.Msg)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := f.telemetry.WatchTelemetry(ctx, &rdmadv1.WatchTelemetryRequest{Interval: durationpb.New(f.o.Interval)})
	if err != nil {
		return err
	}
	// A host that vanished sends nothing, not even an error.
	patience := f.o.Interval + f.o.Timeout
	silence := time.AfterFunc(patience, func() { cancel(fmt.Errorf("no sample for %s", patience)) })
	defer silence.Stop()
	now, err := f.look(ctx)
	for err == nil {
		send(now)
		var sample *rdmadv1.WatchTelemetryResponse
		if sample, err = stream.Recv(); err != nil {
			break
		}
		silence.Reset(patience)
		now, err = f.look(ctx)
		now.sample = sample
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if errors.Is(err, io.EOF) {
		return errEnded
	}
	return err
}

// look asks for everything but the sample.
func (f *feed) look(ctx context.Context) (snapshot, error) {
	ctx, cancel := context.WithTimeout(ctx, f.o.Timeout)
	defer cancel()
	status, err := f.status.GetStatus(ctx, &rdmadv1.GetStatusRequest{})
	if err != nil {
		return snapshot{}, err
	}
	s := snapshot{status: status}
	req := &rdmadv1.ListConnectionsRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: listed}}
	for {
		res, err := f.connections.ListConnections(ctx, req)
		if err != nil {
			return snapshot{}, err
		}
		s.conns = append(s.conns, res.GetConnections()...)
		if req.PageToken = res.GetNextPageToken(); req.PageToken == "" {
			return s, nil
		}
	}
}

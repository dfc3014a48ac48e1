package grpcapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/pcap"
	"github.com/rdmad/rdmad/dataplane/trace"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// diagnosticsService implements rdmad.v1.DiagnosticsService.
type diagnosticsService struct {
	rdmadv1.UnimplementedDiagnosticsServiceServer
	plane   Plane
	version string
}

// traceSnap is what a trace keeps: the headers.
var traceSnap = trace.Snap{Send: 16 << 10}

// Trace implements rdmadv1.DiagnosticsServiceServer.
func (s *diagnosticsService) Trace(req *rdmadv1.TraceRequest, stream grpc.ServerStreamingServer[rdmadv1.TraceResponse]) error {
	begin, header := unjudged(traceSnap), metadata.MD(nil)
	if req.GetCheck() {
		begin, header = (*trace.Hub).WatchJudged, metadata.Pairs(rdmadv1.JudgedHeader, "true")
	}
	return s.watch(req.GetFilter(), begin, func(w *trace.Watcher, judge *trace.Judge) error {
		// The client knows from the header that nothing is missed from now on.
		if err := stream.SendHeader(header); err != nil {
			return err
		}
		dec := trace.NewDecoder()
		for {
			e, err := w.Next(stream.Context())
			if err != nil {
				return ofWatcher(err)
			}
			res := traceResponse(dec.Decode(e))
			if judge != nil {
				addVerdict(res, e.Conn.Began, judge.Observe(e))
			}
			if err := stream.Send(res); err != nil {
				return err
			}
		}
	})
}

// Capture implements rdmadv1.DiagnosticsServiceServer.
func (s *diagnosticsService) Capture(req *rdmadv1.CaptureRequest, stream grpc.ServerStreamingServer[rdmadv1.CaptureResponse]) error {
	snap := trace.All
	if n := int(req.GetSnapLength()); n > 0 {
		snap = trace.Snap{Send: n, RDMA: n}
	}
	return s.watch(req.GetFilter(), unjudged(snap), func(w *trace.Watcher, _ *trace.Judge) error {
		c := &capture{stream: stream}
		var err error
		if c.out, err = pcap.NewWriter(&c.file, s.version); err != nil {
			return err
		}
		return c.run(stream.Context(), w)
	})
}

// beginning makes a watcher, and a judge if one is asked for.
type beginning func(*trace.Hub, trace.Filter) (*trace.Watcher, *trace.Judge, error)

func unjudged(snap trace.Snap) beginning {
	return func(h *trace.Hub, f trace.Filter) (*trace.Watcher, *trace.Judge, error) {
		w, err := h.Watch(f, snap)
		return w, nil, err
	}
}

// watch runs send with a watcher.
func (s *diagnosticsService) watch(f *rdmadv1.TraceFilter, begin beginning, send func(*trace.Watcher, *trace.Judge) error) error {
	filter, err := s.filter(f)
	if err != nil {
		return err
	}
	w, judge, err := begin(s.plane.Tracing(), filter)
	if errors.Is(err, trace.ErrTooMany) || errors.Is(err, trace.ErrNoMemory) {
		return withInfo(codes.ResourceExhausted, err, rdmadv1.ErrorReason_ERROR_REASON_LIMIT, "limit", fmt.Sprint(trace.MaxWatchers))
	}
	if err != nil {
		return err
	}
	defer w.Close()
	return send(w, judge)
}

// filter checks what is asked for: what can't match anything is an error.
func (s *diagnosticsService) filter(f *rdmadv1.TraceFilter) (out trace.Filter, err error) {
	out = trace.Filter{Connections: f.GetConnectionIds(), Listener: f.GetListener()}
	if out.Peer, err = parsePeer("filter.peer", f.GetPeer()); err != nil {
		return out, err
	}
	known := func(l dataplane.ListenerInfo) bool { return l.Name == out.Listener }
	connector := func(c dataplane.ConnectorInfo) bool { return c.Name == out.Listener }
	if out.Listener != "" && !slices.ContainsFunc(s.plane.Listeners(), known) && !slices.ContainsFunc(s.plane.Connectors(), connector) {
		return out, fmt.Errorf("listener %s: %w", out.Listener, dataplane.ErrNotFound)
	}
	if id := s.plane.Tracing().Missing(&out); id != "" {
		return out, fmt.Errorf("connection %s: %w", id, dataplane.ErrNotFound)
	}
	return out, nil
}

// ofWatcher is what a watcher's end means to a client.
func ofWatcher(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return status.FromContextError(err).Err()
}

// flushAt is the size from which on a piece of a capture is sent, in bytes. A
// piece may have the packets of one event more.
const flushAt = 64 << 10

// capture is a file on its way to a client.
type capture struct {
	stream  grpc.ServerStreamingServer[rdmadv1.CaptureResponse]
	file    bytes.Buffer
	out     *pcap.Writer
	sent    int // packets
	dropped uint64
}

func (c *capture) run(ctx context.Context, w *trace.Watcher) error {
	for {
		e, err := w.TryNext()
		if e == nil && err == nil { // nothing waits: let the client have what there is
			if err := c.pause(); err != nil {
				return err
			}
			e, err = w.Next(ctx)
		}
		if errors.Is(err, io.EOF) {
			return c.pause()
		}
		if err != nil {
			return ofWatcher(err)
		}
		c.dropped = e.Dropped
		if err := c.out.Write(e); err != nil {
			return err
		}
		if c.file.Len() >= flushAt {
			if err := c.flush(); err != nil {
				return err
			}
		}
	}
}

// pause sends what there is while no event waits. Those that were dropped came after the last one.
func (c *capture) pause() error {
	if err := c.out.Missing(c.dropped); err != nil {
		return err
	}
	return c.flush()
}

// flush sends whole blocks.
func (c *capture) flush() error {
	if err := c.out.Flush(); err != nil {
		return err
	}
	if c.file.Len() == 0 {
		return nil
	}
	packets := c.out.Packets()
	err := c.stream.Send(&rdmadv1.CaptureResponse{
		Data: c.file.Bytes(), Packets: uint32(packets - c.sent), Dropped: float64(c.dropped),
	})
	c.sent = packets
	c.file.Reset()
	return err
}

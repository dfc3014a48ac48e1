package top

import (
	"context"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// paged is a rdmad with two connections, each on a page of its own, that
// sends so many samples and then nothing.
type paged struct {
	rdmadv1.UnimplementedStatusServiceServer
	rdmadv1.UnimplementedConnectionServiceServer
	rdmadv1.UnimplementedTelemetryServiceServer
	samples int
	ends    bool // the stream, after the samples
}

func (*paged) GetStatus(context.Context, *rdmadv1.GetStatusRequest) (*rdmadv1.GetStatusResponse, error) {
	return &rdmadv1.GetStatusResponse{Version: "v1"}, nil
}

func (*paged) ListConnections(_ context.Context, req *rdmadv1.ListConnectionsRequest) (*rdmadv1.ListConnectionsResponse, error) {
	if req.GetPageToken() == "" {
		return &rdmadv1.ListConnectionsResponse{Connections: []*rdmadv1.Connection{{Id: "1"}}, NextPageToken: "more"}, nil
	}
	return &rdmadv1.ListConnectionsResponse{Connections: []*rdmadv1.Connection{{Id: "2"}}}, nil
}

func (p *paged) WatchTelemetry(_ *rdmadv1.WatchTelemetryRequest, stream grpc.ServerStreamingServer[rdmadv1.WatchTelemetryResponse]) error {
	for range p.samples {
		if err := stream.Send(&rdmadv1.WatchTelemetryResponse{Seconds: 1}); err != nil {
			return err
		}
	}
	if !p.ends {
		<-stream.Context().Done()
	}
	return nil
}

// fed runs a feed on it until ok has seen enough, by the clock of a bubble.
func fed(t *testing.T, p *paged, ok func(tea.Msg) bool) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { feedOn(t, p, ok) })
}

func feedOn(t *testing.T, p *paged, ok func(tea.Msg) bool) {
	l := bufconn.Listen(64 << 10)
	s := grpc.NewServer()
	rdmadv1.RegisterStatusServiceServer(s, p)
	rdmadv1.RegisterConnectionServiceServer(s, p)
	rdmadv1.RegisterTelemetryServiceServer(s, p)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	enough := false
	f := newFeed(&Options{Conn: conn, Interval: 100 * time.Millisecond, Timeout: 400 * time.Millisecond})
	feedAll(ctx, conn, f.follow, func(msg tea.Msg) {
		if ok(msg) {
			enough = true
			cancel()
		}
	})
	cancel()
	conn.Close()
	s.Stop()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if !enough {
		t.Error("never seen enough")
	}
}

func TestFeedReadsAllPages(t *testing.T) {
	var seen []snapshot
	fed(t, &paged{samples: 1}, func(msg tea.Msg) bool {
		if s, ok := msg.(snapshot); ok {
			seen = append(seen, s)
		}
		return len(seen) == 2
	})
	for i, s := range seen {
		if len(s.conns) != 2 || s.conns[1].GetId() != "2" || (s.sample != nil) != (i == 1) {
			t.Errorf("snapshot %d: connections %v, sample %v", i, s.conns, s.sample)
		}
	}
}

// A rdmad that says nothing any more, and one that ends the stream, are both
// away, and are asked again.
func TestFeedNoticesSilenceAndEnd(t *testing.T) {
	for _, c := range []struct {
		ends bool
		want string
	}{{false, "no sample for 500ms"}, {true, "rdmad ended the stream"}} {
		away, back := "", false
		fed(t, &paged{samples: 2, ends: c.ends}, func(msg tea.Msg) bool {
			switch msg := msg.(type) {
			case offline:
				away = msg.err.Error()
			case snapshot:
				back = away != ""
			}
			return back
		})
		if !strings.Contains(away, c.want) {
			t.Errorf("away because of %q, want %q", away, c.want)
		}
	}
}

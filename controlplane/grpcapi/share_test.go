package grpcapi

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// reader is a stream whose client takes some time for each sample.
type reader struct {
	grpc.ServerStreamingServer[rdmadv1.WatchTelemetryResponse]
	ctx  context.Context
	take func(encoded)
}

func (r *reader) Context() context.Context { return r.ctx }

func (r *reader) SendHeader(metadata.MD) error { return nil }

func (r *reader) SendMsg(m any) error {
	r.take(m.(encoded))
	return nil
}

// TestStreamsShareSamples: streams of the same request take their samples at different times, but
// send the same few encodings. Each stream's samples say when they end, and follow one another
// without a gap, also after the client did not read for some time.
func TestStreamsShareSamples(t *testing.T) {
	const streams, interval, intervals = 17, 2 * time.Second, 20
	synctest.Test(t, func(t *testing.T) {
		plane := &planetest.Plane{}
		plane.Listen("nfs", "127.0.0.1:20049")
		for i := range 3 {
			plane.Connect(planetest.Peer{ID: fmt.Sprint(i), Listener: "nfs", Address: fmt.Sprintf("192.0.2.7:%d", i+1)})
		}
		s := &telemetryService{looks: telemetry.NewLooks(plane, time.Now())}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		var mu sync.Mutex
		made := make(map[*byte]*rdmadv1.WatchTelemetryRequest)
		sent := 0
		watch := func(req *rdmadv1.WatchTelemetryRequest, check func(*rdmadv1.WatchTelemetryResponse)) {
			req.Interval = durationpb.New(interval)
			var last time.Time
			r := &reader{ctx: ctx, take: func(m encoded) {
				var res rdmadv1.WatchTelemetryResponse
				if err := proto.Unmarshal(m, &res); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				if of := made[&m[0]]; of != nil && !proto.Equal(of, req) {
					t.Errorf("%v gets what was made for %v", req, of)
				}
				made[&m[0]] = req
				sent++
				mu.Unlock()
				at := res.GetTime().AsTime()
				if age := time.Since(at); age < 0 || age > maxCell {
					t.Errorf("a sample is %v old", age)
				}
				if begins := at.Add(-time.Duration(res.GetSeconds() * 1e9)); !last.IsZero() && begins.Sub(last).Abs() > time.Microsecond {
					t.Errorf("a sample begins at %v, the last one ended at %v", begins, last)
				}
				last = at
				check(&res)
			}}
			running.Go(func() { _ = s.WatchTelemetry(req, r) })
		}
		for range streams {
			watch(&rdmadv1.WatchTelemetryRequest{}, func(res *rdmadv1.WatchTelemetryResponse) {
				if len(res.GetConnections()) != 3 || res.GetTotal() == nil {
					t.Errorf("all: %v", res)
				}
			})
		}
		watch(&rdmadv1.WatchTelemetryRequest{BusyOnly: true}, func(res *rdmadv1.WatchTelemetryResponse) {
			if len(res.GetConnections()) > 1 || res.GetTotal() == nil {
				t.Errorf("busy: %v", res)
			}
		})
		watch(&rdmadv1.WatchTelemetryRequest{ReadMask: &fieldmaskpb.FieldMask{Paths: []string{"time", "seconds", "connections"}}}, func(res *rdmadv1.WatchTelemetryResponse) {
			if len(res.GetConnections()) != 3 || res.GetTotal() != nil {
				t.Errorf("masked: %v", res)
			}
		})
		slow := 0
		watch(&rdmadv1.WatchTelemetryRequest{}, func(res *rdmadv1.WatchTelemetryResponse) {
			if slow++; slow == 3 {
				time.Sleep(4 * interval)
			}
			if want := 3 * interval.Seconds(); slow == 4 && res.GetSeconds() < want {
				t.Errorf("after a pause: %v", res)
			}
		})
		for range intervals * 10 {
			time.Sleep(interval / 10)
			plane.Count("1", func(c *dataplane.ConnInfo) { c.Stats.Calls++ })
		}
		cancel()
		running.Wait()
		const forms = 3
		if most := forms * intervals * int(interval/maxCell); sent < streams*(intervals-1) || len(made) > most {
			t.Errorf("%d samples sent, %d made; want no more than %d", sent, len(made), most)
		}
	})
}

package grpcapi

import (
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/rdmad/rdmad/controlplane/advise"
	"github.com/rdmad/rdmad/controlplane/desired"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/controlplane/settingsproto"
	"github.com/rdmad/rdmad/controlplane/telemetry"
	"github.com/rdmad/rdmad/dataplane"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
)

// telemetryService implements rdmad.v1.TelemetryService.
type telemetryService struct {
	rdmadv1.UnimplementedTelemetryServiceServer
	plane  Plane
	looks  *telemetry.Looks
	store  *desired.Store
	spread spread
}

const defaultInterval = time.Second

// maxCell is the most time for which streams share a look at the counters. Streams of short
// intervals share it for half of the interval.
const maxCell = time.Second

// WatchTelemetry implements rdmadv1.TelemetryServiceServer. While the client does not read,
// Send blocks and no sample is taken: the next one covers that time. Streams share samples, and
// their encoding if they ask for the same fields.
func (s *telemetryService) WatchTelemetry(req *rdmadv1.WatchTelemetryRequest, stream grpc.ServerStreamingServer[rdmadv1.WatchTelemetryResponse]) error {
	fields, err := newReadMask(req.GetReadMask(), &rdmadv1.WatchTelemetryResponse{})
	if err != nil {
		return err
	}
	interval := defaultInterval
	if req.GetInterval() != nil {
		interval = req.GetInterval().AsDuration()
	}
	if err := stream.SendHeader(nil); err != nil { // the client knows that rdmad answers
		return err
	}
	form := fmt.Sprint(fields, req.GetBusyOnly())
	encode := func(sample *telemetry.Sample) ([]byte, error) {
		m := telemetrySample(sample, req.GetBusyOnly())
		fields.prune(m)
		return proto.Marshal(m)
	}
	sampler := telemetry.New(s.source(req, fields), time.Now(), min(interval/2, maxCell))
	ticker := time.NewTicker(s.spread.first(interval))
	defer ticker.Stop()
	for first := true; ; first = false {
		select {
		case <-ticker.C:
			if first {
				ticker.Reset(interval)
			}
			sample := sampler.Sample(time.Now())
			m, err := sample.Encoded(form, encode)
			if err != nil {
				return err
			}
			if err := stream.SendMsg(encoded(m)); err != nil {
				return err
			}
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
}

// source is the part of the data plane that a request asks for.
func (s *telemetryService) source(req *rdmadv1.WatchTelemetryRequest, fields mask) telemetry.Source {
	switch {
	case !fields.has("connections"):
		return s.looks.Totals
	case len(req.GetConnectionIds()) > 0:
		return s.looks.Some(req.GetConnectionIds())
	}
	return s.looks.All
}

// telemetrySample is the one place where a sample becomes protobuf.
func telemetrySample(s *telemetry.Sample, busyOnly bool) *rdmadv1.WatchTelemetryResponse {
	res := &rdmadv1.WatchTelemetryResponse{Time: timestamp(s.At), Seconds: s.Seconds, Total: rates(&s.Total), ServiceTimeUsP50: micros(s.P50), ServiceTimeUsP99: micros(s.P99)}
	for i := range s.Listeners {
		l := &s.Listeners[i]
		res.Listeners = append(res.Listeners, &rdmadv1.ListenerSample{
			Name:             l.Name,
			Rates:            rates(&l.Rates),
			Connections:      uint32(l.Connections),
			ServiceTimeUsP50: micros(l.P50),
			ServiceTimeUsP99: micros(l.P99),
			MemoryUsed:       float64(l.Memory.Taken),
			MemoryLimit:      float64(l.Memory.Limit),
		})
	}
	for i := range s.Connections {
		c := &s.Connections[i]
		if busyOnly && !c.Busy() {
			continue
		}
		res.Connections = append(res.Connections, &rdmadv1.ConnectionSample{
			Id: c.ID, Rates: rates(&c.Rates), CallsInProgress: uint32(c.InProgress), CreditsGranted: c.Credits,
		})
	}
	return res
}

func rates(r *telemetry.Rates) *rdmadv1.Rates {
	return &rdmadv1.Rates{
		Calls:               r.Calls,
		Replies:             r.Replies,
		BytesReceived:       r.BytesReceived,
		BytesSent:           r.BytesSent,
		Sends:               r.Sends,
		RdmaReads:           r.RDMAReads,
		RdmaWrites:          r.RDMAWrites,
		SendsWithInvalidate: r.SendsWithInvalidate,
		Errors:              r.Errors,
	}
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// AdviseSettings implements rdmadv1.TelemetryServiceServer.
func (s *telemetryService) AdviseSettings(_ context.Context, req *rdmadv1.AdviseSettingsRequest) (*rdmadv1.AdviseSettingsResponse, error) {
	scope, err := settings.ParseScope(req.GetScope())
	if err != nil {
		return nil, err
	}
	if _, err := s.store.Get(scope); err != nil {
		return nil, err
	}
	var in []dataplane.ConnInfo
	for _, c := range s.plane.Connections() {
		if scope.Covers(settings.Target(c.ConnKey)) {
			in = append(in, c)
		}
	}
	res := &rdmadv1.AdviseSettingsResponse{Connections: uint32(len(in))}
	for i := range in {
		res.Calls += float64(in[i].Stats.Calls)
	}
	res.Advice = messages(advise.For(in), adviceMessage)
	return res, nil
}

func adviceMessage(a *advise.Advice) *rdmadv1.Advice {
	var v settings.Values
	var assignments []string
	set := func(k live.Key, value uint32) {
		v.Set(k, value)
		assignments = append(assignments, k.String()+"="+v.Format(k))
	}
	set(a.Key, a.Value)
	if a.MinChunk > 0 {
		set(live.DDPMinChunk, a.MinChunk)
	}
	outcome := live.PendingReconnect
	if a.AtOnce {
		outcome = live.Applied
	}
	return &rdmadv1.Advice{
		Settings:            settingsproto.Message(&v),
		Assignments:         assignments,
		RdmaOperationsSaved: float64(a.Operations),
		RegistrationsSaved:  float64(a.Registrations),
		MemoryAdded:         float64(a.Memory),
		Reason:              a.Reason(),
		Outcome:             outcomes[outcome],
	}
}

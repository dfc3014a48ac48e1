package grpcapi_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	channelzpb "google.golang.org/grpc/channelz/grpc_channelz_v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// profile asks for a profile, and returns its length.
func (b *bench) profile(ctx context.Context, req *rdmadv1.ProfileRequest) (n int, err error) {
	stream, err := rdmadv1.NewProcessServiceClient(b.client).Profile(ctx, req)
	for err == nil {
		var part *rdmadv1.ProfileResponse
		part, err = stream.Recv()
		n += len(part.GetData())
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// TestProfile: profiles come, one over a time at once, and wrong requests are refused.
func TestProfile(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	if n, err := b.profile(t.Context(), &rdmadv1.ProfileRequest{Kind: rdmadv1.ProfileRequest_GOROUTINE}); n == 0 || err != nil {
		t.Errorf("goroutine: %d bytes, %v", n, err)
	}
	for kind, d := range map[rdmadv1.ProfileRequest_Kind]time.Duration{
		rdmadv1.ProfileRequest_HEAP: time.Second, rdmadv1.ProfileRequest_CPU: time.Hour, rdmadv1.ProfileRequest_KIND_UNSPECIFIED: 0, 99: 0,
	} {
		if _, err := b.profile(t.Context(), &rdmadv1.ProfileRequest{Kind: kind, Duration: durationpb.New(d)}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v for %v: %v", kind, d, err)
		}
	}
	long := &rdmadv1.ProfileRequest{Kind: rdmadv1.ProfileRequest_TRACE, Duration: durationpb.New(time.Minute)}
	ctx, cancel := context.WithCancel(t.Context())
	first, err := rdmadv1.NewProcessServiceClient(b.client).Profile(ctx, long)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Recv(); err != nil { // it has begun
		t.Fatal(err)
	}
	cpu := &rdmadv1.ProfileRequest{Kind: rdmadv1.ProfileRequest_CPU, Duration: durationpb.New(time.Millisecond)}
	if _, err := b.profile(t.Context(), cpu); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("beside another one: %v", err)
	}
	cancel()
	for { // the first one is about to end
		_, err = b.profile(t.Context(), cpu)
		if c := status.Code(err); c != codes.FailedPrecondition && c != codes.ResourceExhausted {
			break
		}
	}
	if err != nil {
		t.Errorf("after another one: %v", err)
	}
}

// TestChannelz: admins see the connections of the control plane with their calls.
func TestChannelz(t *testing.T) {
	b := start(t, smallPlane(), nil, 16)
	if _, err := rdmadv1.NewStatusServiceClient(b.client).GetStatus(t.Context(), &rdmadv1.GetStatusRequest{}); err != nil {
		t.Fatal(err)
	}
	client := channelzpb.NewChannelzClient(b.client)
	all := have(client.GetServers(t.Context(), &channelzpb.GetServersRequest{}))(t)
	calls := int64(0)
	for _, s := range all.GetServer() {
		calls += s.GetData().GetCallsSucceeded()
	}
	if calls == 0 {
		t.Errorf("no calls on %v", all)
	}
}

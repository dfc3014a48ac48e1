package grpcapi

import (
	"bufio"
	"errors"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/rdmad/rdmad/controlplane/profile"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// profileTime is the time of a profile whose request has none.
const profileTime = 10 * time.Second

// Profile implements rdmadv1.ProcessServiceServer.
func (s *processService) Profile(req *rdmadv1.ProfileRequest, stream grpc.ServerStreamingServer[rdmadv1.ProfileResponse]) error {
	name, d := strings.ToLower(req.GetKind().String()), profileTime
	if req.Duration != nil {
		d = req.GetDuration().AsDuration()
		if !profile.Timed(name) {
			return invalidField("duration", "the profile "+name+" shows a moment; leave it out")
		}
	}
	w := bufio.NewWriterSize(profileWriter{stream}, flushAt)
	err := profile.Write(stream.Context(), w, name, d)
	if errors.Is(err, profile.ErrBusy) {
		return status.Error(codes.FailedPrecondition, err.Error()+"; try again when it has ended")
	}
	return errors.Join(err, w.Flush())
}

// profileWriter sends parts of a profile.
type profileWriter struct {
	stream grpc.ServerStreamingServer[rdmadv1.ProfileResponse]
}

func (w profileWriter) Write(b []byte) (int, error) {
	if err := w.stream.Send(&rdmadv1.ProfileResponse{Data: b}); err != nil {
		return 0, err
	}
	return len(b), nil
}

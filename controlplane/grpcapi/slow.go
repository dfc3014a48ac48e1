package grpcapi

import (
	"sync"
	"time"

	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/controlplane/watch"
)

// endStreams ends all streams when stopping is closed, and before that those whose client
// doesn't read: one message that can't be sent for so long means that the client's window has been
// shut since. The handler runs in a goroutine of its own, because it may be stuck in a message; the
// end of the call wakes it up, and it ends by the error that it gets from then on.
func endStreams(timeout time.Duration, stopping <-chan struct{}) grpc.StreamServerInterceptor {
	return func(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		s := &timed{ServerStream: ss, timeout: timeout, slow: make(chan struct{})}
		ended := make(chan error, 1)
		go func() { ended <- next(srv, s) }() // a panic is recovered from further in
		select {
		case err := <-ended:
			return err
		case <-s.slow:
			return toStatus(watch.ErrSlow)
		case <-stopping:
			return shutdown()
		}
	}
}

// timed bounds the time of sending a message.
type timed struct {
	grpc.ServerStream
	timeout time.Duration
	timer   *time.Timer // nil before the first message
	once    sync.Once
	slow    chan struct{} // closed when one took too long
}

// SendMsg implements grpc.ServerStream.
func (s *timed) SendMsg(m any) error {
	if s.timer == nil {
		s.timer = time.AfterFunc(s.timeout, func() { s.once.Do(func() { close(s.slow) }) })
	} else {
		s.timer.Reset(s.timeout)
	}
	defer s.timer.Stop()
	return s.ServerStream.SendMsg(m)
}

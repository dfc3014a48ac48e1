package grpcapi

import (
	"fmt"
	"runtime/debug"

	"github.com/rdmad/rdmad/dataplane"
)

// shutdown is why streams end that rdmad ends.
func shutdown() error { return toStatus(dataplane.ErrShutdown) }

// sending runs send, which writes to a stream. Sending blocks while the
// client doesn't read, so it has a goroutine of its own: when done is closed
// meanwhile, returning ends the stream, and that the goroutine. A panic is
// passed on to where it is recovered from, as in any other call.
func sending(done <-chan struct{}, why func() error, send func() error) error {
	sent, panicked := make(chan error, 1), make(chan any, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				panicked <- fmt.Sprintf("%v\n%s", p, debug.Stack())
			}
		}()
		sent <- send()
	}()
	select {
	case err := <-sent:
		return err
	case <-done:
		return why()
	case p := <-panicked:
		panic(p)
	}
}

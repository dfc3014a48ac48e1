package console

import (
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// TestBrowserThatDoesNotRead: writing to it ends after some time.
func TestBrowserThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		defer here.Close()
		defer there.Close()
		if _, err := (&timedConn{here, time.Minute}).Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

package rpctcp

import (
	"bufio"
	"errors"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"
)

// intake is one whose peer is the test.
func intake(t *testing.T) (*Intake, net.Conn) {
	t.Helper()
	nc, peer := net.Pipe()
	t.Cleanup(func() {
		nc.Close()
		peer.Close()
	})
	return NewIntake(nc, bufio.NewReader(nc), time.Minute, time.Second), peer
}

// A peer whose calls are in flight may say nothing for as long as it takes.
func TestIntakeOfIdlePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := intake(t)
		begin, asked := time.Now(), 0
		err := i.Await(func() bool {
			asked++
			return asked < 3
		})
		if err == nil || err.Error() != "no call for 1m0s" || time.Since(begin) != 3*time.Minute {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestIntakeOfSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, peer := intake(t)
		go peer.Write([]byte{1, 2, 3})
		if err := i.Await(func() bool { return false }); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if err := i.Expect(3); err != nil { // all there: the time goes on
			t.Fatal(err)
		}
		if err := i.Expect(4); err != nil {
			t.Fatal(err)
		}
		if _, err := i.in.Peek(4); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(begin) != time.Second {
			t.Errorf("%v after %v", err, time.Since(begin))
		}
	})
}

func TestIntakeStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, _ := intake(t)
		ended := make(chan error)
		go func() { ended <- i.Await(func() bool { return true }) }()
		synctest.Wait()
		i.Stop()
		if err := <-ended; !errors.Is(err, ErrStopped) {
			t.Errorf("%v", err)
		}
		if err := i.Again(); !errors.Is(err, ErrStopped) || !i.Stopped() {
			t.Errorf("%v", err)
		}
	})
}

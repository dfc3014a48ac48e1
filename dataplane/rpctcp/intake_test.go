package rpctcp

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// intake is one whose peer is the test.
func intake(t *testing.T, slow func()) (*Intake, net.Conn) {
	t.Helper()
	nc, peer := net.Pipe()
	t.Cleanup(func() {
		nc.Close()
		peer.Close()
	})
	return NewIntake(nc, 10*time.Second, new(atomic.Uint64), slow), peer
}

// TestIntakeOfIdlePeer: a peer may send nothing between records for any time, also
// after a record that was timed.
func TestIntakeOfIdlePeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i, peer := intake(t, nil)
		go func() {
			for range 2 {
				time.Sleep(24 * time.Hour)
				peer.Write([]byte{1})
			}
		}()
		for range 2 {
			if err := i.Await(); err != nil {
				t.Fatal(err)
			}
			if err := i.Again(); err != nil {
				t.Fatal(err)
			}
			if _, err := i.ReadByte(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestIntakeOfSlowPeer has peers send at different rates within a record. At Floor
// and above there is no time limit. Below it the peer is cut when it is 10 s
// behind.
func TestIntakeOfSlowPeer(t *testing.T) {
	for _, c := range []struct {
		rate int // bytes per second
		cut  time.Duration
	}{{1, 10 * time.Second}, {Floor / 2, 20 * time.Second}, {Floor, 0}, {2 * Floor, 0}} {
		synctest.Test(t, func(t *testing.T) {
			i, peer := intake(t, nil)
			sent := make(chan struct{})
			go func() {
				defer close(sent)
				for err := error(nil); err == nil; {
					time.Sleep(time.Second)
					_, err = peer.Write(make([]byte, c.rate))
				}
			}()
			begin := time.Now()
			if err := i.Again(); err != nil {
				t.Fatal(err)
			}
			b := make([]byte, 1<<10)
			var err error
			for err == nil && time.Since(begin) < 5*time.Minute {
				_, err = i.Read(b)
			}
			took := time.Since(begin)
			peer.Close()
			<-sent
			switch {
			case c.cut == 0 && err != nil:
				t.Errorf("%d bytes per second: %v after %v", c.rate, err, took)
			case c.cut > 0 && (!errors.Is(err, errSlow) || took < c.cut-time.Second || took > c.cut+time.Second):
				t.Errorf("%d bytes per second: %v after %v, want after %v", c.rate, err, took, c.cut)
			}
		})
	}
}

// TestIntakeTellsOfSlowPeer: slow is called from 5 s behind on.
func TestIntakeTellsOfSlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := 0
		i, _ := intake(t, func() { told++ })
		if err := i.Arrive(1); !errors.Is(err, errSlow) {
			t.Error(err)
		}
		if told != 5 || i.Behind() != 10*time.Second {
			t.Errorf("told %d times, %v behind", told, i.Behind())
		}
		i.Stop()
		if err := i.Await(); !errors.Is(err, ErrStopped) || i.Behind() != 0 {
			t.Errorf("%v, %v behind", err, i.Behind())
		}
	})
}

func TestIntakeStops(t *testing.T) {
	for name, wait := range map[string]func(*Intake) error{
		"between records": (*Intake).Await,
		"in a record":     func(i *Intake) error { return i.Arrive(10) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, _ := intake(t, nil)
				ended := make(chan error)
				go func() { ended <- wait(i) }()
				synctest.Wait()
				i.Stop()
				begin := time.Now()
				if err := <-ended; !errors.Is(err, ErrStopped) || time.Since(begin) != 0 {
					t.Errorf("%v after %v", err, time.Since(begin))
				}
				if err := i.Again(); !errors.Is(err, ErrStopped) || !i.Stopped() {
					t.Errorf("%v", err)
				}
			})
		})
	}
}

//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestSignals: signals, such as those by which Go preempts goroutines, interrupt no connect.
func TestSignals(t *testing.T) {
	o := newOutage(t, *addressFlag+":0")
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Microsecond):
			}
			threads, _ := os.ReadDir("/proc/self/task")
			for _, e := range threads {
				if tid, err := strconv.Atoi(e.Name()); err == nil {
					_ = unix.Tgkill(os.Getpid(), tid, unix.SIGURG) // Go takes it for its own, and goes on
				}
			}
		}
	}()
	defer func() {
		close(stop)
		<-done
	}()
	for range 30 {
		o.connect().Close()
		if t.Failed() {
			return
		}
	}
}

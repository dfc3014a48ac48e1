package rpcrdma_test

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// lines keeps what is logged.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(b))
	return len(b), nil
}

// take gives the lines so far, once.
func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.all
	l.all = nil
	return all
}

// TestOneLinePerMinute: what a peer sends that is refused or dropped shows in
// the log with its address and the reason, in few lines however much it is.
func TestOneLinePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log lines
		b := newBed(t, loopback.New(loopback.Config{}), bedConfig{timeout: time.Hour, log: slog.New(slog.NewTextHandler(&log, nil))})
		r := b.dialRaw(kernelPrivateData)
		conn := <-b.conns
		expect := func(count int, reason string) {
			t.Helper()
			got := log.take()
			if count == 0 && len(got) == 0 {
				return
			}
			for _, want := range []string{fmt.Sprintf("count=%d ", count), "peer=" + r.id.LocalAddr().String(), reason} {
				if len(got) != 1 || !strings.Contains(got[0], want) {
					t.Fatalf("logged %q, want one line with %q", got, want)
				}
			}
		}
		r.exchange(message(rpcrdma1.Header{XID: 1}, procNull))
		time.Sleep(12 * time.Second) // the host's ticks are at multiples of 5
		expect(0, "")
		for i := range 50 {
			r.post(message(rpcrdma1.Header{XID: uint32(i), Version: 2}, procNull))
			r.receive()
			r.post(make([]byte, 3))
		}
		time.Sleep(10 * time.Second)
		expect(100, "unsupported version")
		for range 7 {
			r.post(make([]byte, 3))
		}
		time.Sleep(30 * time.Second)
		expect(0, "")
		time.Sleep(time.Minute)
		expect(7, "shorter than the header prefix")
		r.exchange(message(rpcrdma1.Header{XID: 2, Proc: rpcrdma1.NoMsg}, procNull))
		r.id.Disconnect()
		<-conn.Done()
		expect(1, "position-zero chunk")
	})
}

package softiwarp

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"
)

func TestDroppedLog(t *testing.T) {
	d := newDroppedLog()
	now := time.Unix(1000, 0)
	for i := range 100 {
		if _, ok := d.next(now); ok != (i < droppedBurst) {
			t.Fatalf("request %d of a flood: logged %v", i, ok)
		}
	}
	if skipped, ok := d.next(now.Add(droppedEvery)); !ok || skipped != 100-droppedBurst {
		t.Errorf("afterwards: logged %v, with %d not logged", ok, skipped)
	}
	if skipped, ok := d.next(now.Add(2 * droppedEvery)); !ok || skipped != 0 {
		t.Errorf("the next: logged %v, with %d not logged", ok, skipped)
	}
}

// TestDroppedRequestsAreFewLines: who connects and sends nonsense, or nothing,
// is told of, but can't fill the log.
func TestDroppedRequestsAreFewLines(t *testing.T) {
	var log bytes.Buffer
	p := newProvider(t, Config{Logger: testLogger(&log, nil)})
	l := must(p.Listen(t.Context(), "127.0.0.1:0"))(t)
	const peers = 100
	for range peers {
		conn := must(net.Dial("tcp", l.Addr().String()))(t)
		if _, err := conn.Write(bytes.Repeat([]byte("x"), 64)); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(testTimeout))
		if _, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatal("not dropped")
		}
		conn.Close()
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(log.Bytes(), []byte("connection request dropped")); n < droppedBurst || n > peers/2 {
		t.Errorf("%d lines for %d requests:\n%s", n, peers, &log)
	}
}

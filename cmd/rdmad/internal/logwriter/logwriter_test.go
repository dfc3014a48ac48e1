package logwriter

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// sink takes lines once its gate is closed, as a channel; nil means at once.
type sink struct {
	gate chan struct{}
	mu   sync.Mutex
	got  bytes.Buffer
}

func (s *sink) Write(b []byte) (int, error) {
	if s.gate != nil {
		<-s.gate
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.Write(b)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got.String()
}

// TestWritten: a line is there when Write returns, also with several writers.
func TestWritten(t *testing.T) {
	var s sink
	w := New(&s, nil)
	var all sync.WaitGroup
	for i := range 50 {
		all.Go(func() {
			line := fmt.Sprintf("line %d\n", i)
			if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
				t.Error(n, err)
			}
			if !strings.Contains(s.String(), line) {
				t.Errorf("%q is not written", line)
			}
		})
	}
	all.Wait()
	if n := strings.Count(s.String(), "\n"); n != 50 {
		t.Errorf("%d lines", n)
	}
}

// TestStalled: while nothing takes the lines, only the first one waits, and not for long. Then all
// come in order, and the number of those for which there was no room.
func TestStalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		lost := make(chan int, 2)
		s := sink{gate: make(chan struct{})}
		w := New(&s, func(n int) { lost <- n })
		line := func(i int) string { return fmt.Sprintf("%*d\n", size-1, i) }
		began := time.Now()
		var want strings.Builder
		n := 0
		for ; n < 3*room/size; n++ {
			if _, err := w.Write([]byte(line(n))); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != patience {
			t.Errorf("%d lines took %v, want %v", n, took, patience)
		}
		close(s.gate)
		missing := <-lost
		for i := range n - missing {
			want.WriteString(line(i))
		}
		if got := s.String(); got != want.String() || missing < n/2 {
			t.Errorf("%d of %d lines came, %d were lost", strings.Count(got, "\n"), n, missing)
		}
		if _, err := w.Write([]byte("the end\n")); err != nil || !strings.HasSuffix(s.String(), "the end\n") {
			t.Errorf("the line afterwards: %v", err)
		}
		synctest.Wait()
		if len(lost) > 0 {
			t.Errorf("%d more were lost", <-lost)
		}
	})
}

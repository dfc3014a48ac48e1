package siege

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestLate checks that a client that is held up counts the calls which it could not
// make, with the time that each of them was late.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		in := &innocent{every: 10 * time.Millisecond, do: func(context.Context) error {
			if calls++; calls == 5 {
				time.Sleep(time.Second)
			}
			return nil
		}}
		over := make(chan struct{})
		time.AfterFunc(540*time.Millisecond, func() { close(over) })
		got := in.work(t.Context(), over)
		// Calls were due at 0, 10, … 1030 ms. The fifth, due at 40 ms, ended at
		// 1040 ms, and the 99 behind it were not made.
		if in.made.Load() != 5 || got.Calls != 104 || got.Longest != 1000 || got.P50 != 480 || got.Errors != 0 {
			t.Errorf("%+v, %d calls made", got, in.made.Load())
		}
	})
}

// TestNoAnswer checks that a call without an answer becomes an error in time, and
// that the client then makes its next call.
func TestNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		in := &innocent{every: time.Second, do: func(ctx context.Context) error {
			switch calls++; calls {
			case 1:
				<-ctx.Done()
				return ctx.Err()
			case 2:
				return errors.New("second")
			}
			return nil
		}}
		over := make(chan struct{})
		time.AfterFunc(callTimeout+time.Second/2, func() { close(over) })
		got := in.work(t.Context(), over)
		if got.Errors != 2 || got.Error != "no answer in 30s" || in.made.Load() < 1 || got.Longest != 30_000 {
			t.Errorf("%+v, %d calls made", got, in.made.Load())
		}
	})
}

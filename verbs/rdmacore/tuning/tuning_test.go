package tuning

import (
	"errors"
	"testing"
	"time"
)

func TestCheck(t *testing.T) {
	ok := Default()
	if err := ok.Check(); err != nil {
		t.Errorf("the defaults: %v", err)
	}
	for _, c := range []struct {
		key    string
		change func(*Settings)
	}{
		{"retry_count", func(s *Settings) { s.RetryCount = 0 }},
		{"retry_count", func(s *Settings) { s.RetryCount = 8 }},
		{"rnr_retry_count", func(s *Settings) { s.RNRRetryCount = -1 }},
		{"rnr_retry_count", func(s *Settings) { s.RNRRetryCount = 8 }},
		{"rnr_timer", func(s *Settings) { s.RNRTimer = MinRNRTimer - 1 }},
		{"rnr_timer", func(s *Settings) { s.RNRTimer = MaxRNRTimer + 1 }},
		{"ack_timeout", func(s *Settings) { s.AckTimeout = MinAckTimeout - 1 }},
		{"ack_timeout", func(s *Settings) { s.AckTimeout = MaxAckTimeout + 1 }},
		{"keep_alive", func(s *Settings) { s.KeepAlive = -1 }},
		{"keep_alive", func(s *Settings) { s.KeepAlive = MinKeepAlive - 1 }},
		{"keep_alive", func(s *Settings) { s.KeepAlive = MaxKeepAlive + 1 }},
		{"busy_poll", func(s *Settings) { s.BusyPoll = -1 }},
		{"busy_poll", func(s *Settings) { s.BusyPoll = MaxBusyPoll + 1 }},
	} {
		s := Default()
		c.change(&s)
		var bad *Error
		if err := s.Check(); !errors.As(err, &bad) || bad.Key != c.key {
			t.Errorf("%+v: %v, want a mistake in %s", s, err, c.key)
		}
	}
}

func TestRNRTimerCode(t *testing.T) {
	for d, want := range map[time.Duration]uint8{
		MinRNRTimer: 1, 11 * time.Microsecond: 2, 640 * time.Microsecond: 12, 641 * time.Microsecond: 13,
		491520 * time.Microsecond: 31, 491521 * time.Microsecond: 0, MaxRNRTimer: 0,
	} {
		if got := RNRTimerCode(d); got != want {
			t.Errorf("%v is code %d, not %d", d, got, want)
		}
	}
}

func TestAckTimeoutCode(t *testing.T) {
	for d, want := range map[time.Duration]uint8{
		MinAckTimeout: 1, 8192: 1, 8193: 2, 67 * time.Millisecond: 14, 68 * time.Millisecond: 15, MaxAckTimeout: 24,
	} {
		if got := AckTimeoutCode(d); got != want {
			t.Errorf("%v is code %d, not %d", d, got, want)
		}
	}
}

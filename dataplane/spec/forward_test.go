package spec

import (
	"testing"
	"time"
)

// TestForwardRanges: what is out of range is refused, with the range.
func TestForwardRanges(t *testing.T) {
	for want, f := range map[string]Forward{
		"": {DialTimeout: time.Second, CallTimeout: time.Minute, CallbackTimeout: time.Minute, MaxRecord: 1 << 20},
		"dial_timeout: 11s is out of range 100ms..10s":     {DialTimeout: 11 * time.Second},
		"call_timeout: -1s is out of range 1s..1h":         {CallTimeout: -time.Second},
		"callback_timeout: 1ns is out of range 100ms..10m": {CallbackTimeout: 1},
		"max_record: 5 is out of range 64KiB..64MiB":       {MaxRecord: 5},
		"max_record: -1 is out of range 64KiB..64MiB":      {MaxRecord: -1},
	} {
		f.Address = "upstream:2049"
		got := ""
		if err := Check(&f); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := Check(&Forward{Address: "upstream:2049"}); err != nil {
		t.Error(err)
	}
}

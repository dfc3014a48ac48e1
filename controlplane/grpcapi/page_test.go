package grpcapi

import (
	"strings"
	"testing"
)

// TestSequenceAfter: a token whose number does not fit, or is none, is refused.
func TestSequenceAfter(t *testing.T) {
	for last, bits := range map[string]int{"4294967296": 32, "18446744073709551616": 64, "-1": 64, "x": 32} {
		if n, err := sequenceAfter(pageToken(last, "list"), bits, "list"); err == nil {
			t.Errorf("%q of %d bits is %d", last, bits, n)
		}
	}
	for last, bits := range map[string]int{"4294967295": 32, "18446744073709551615": 64, "": 32} {
		if _, err := sequenceAfter(pageToken(last, "list"), bits, "list"); err != nil {
			t.Errorf("%q of %d bits: %v", last, bits, err)
		}
	}
}

// TestLongFilters: a token has no more characters than requests take, whatever filters they have.
func TestLongFilters(t *testing.T) {
	filters, last := []string{"audit", strings.Repeat("a", 256), "2026-11-20 09:30:00.123456789 +0000 UTC"}, strings.Repeat("p", 63)+"@4294967295"
	token := pageToken(last, filters...)
	if got, err := afterToken(token, filters...); got != last || err != nil || len(token) > 128 {
		t.Errorf("%d characters, after %q, %v", len(token), got, err)
	}
}

package grpcapi

import "testing"

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

package xdr

import "testing"

func TestSpan(t *testing.T) {
	for _, tc := range []struct {
		s, t  Span
		meets bool
	}{
		{Span{4, 8}, Span{4, 8}, true},
		{Span{4, 8}, Span{0, 12}, true},
		{Span{4, 8}, Span{7, 12}, true},
		{Span{4, 8}, Span{8, 12}, false},
		{Span{4, 8}, Span{0, 4}, false},
		{Span{4, 8}, Span{6, 6}, false},
		{Span{}, Span{}, false},
	} {
		if tc.s.Meets(tc.t) != tc.meets || tc.t.Meets(tc.s) != tc.meets {
			t.Errorf("%v and %v: %v", tc.s, tc.t, tc.s.Meets(tc.t))
		}
		if tc.s.Shift(3).Shift(-3) != tc.s || tc.s.Shift(5).Empty() != tc.s.Empty() {
			t.Errorf("%v, moved", tc.s)
		}
	}
}

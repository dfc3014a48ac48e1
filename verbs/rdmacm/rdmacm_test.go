package rdmacm

import (
	"errors"
	"fmt"
	"testing"
)

func TestRejectedError(t *testing.T) {
	for data, want := range map[string]string{
		"busy":         "connection rejected by peer: busy",
		"busy\x00\x00": "connection rejected by peer: busy",
		"":             "connection rejected by peer (0 bytes of private data)",
		"\x00\x00":     "connection rejected by peer (2 bytes of private data)",
		"a\nb":         "connection rejected by peer (3 bytes of private data)",
		"\x1b[2J":      "connection rejected by peer (4 bytes of private data)",
		"a\u202eb":     "connection rejected by peer (5 bytes of private data)",
		"\xf6\xab\x0e": "connection rejected by peer (3 bytes of private data)",
	} {
		if got := (&RejectedError{PrivateData: []byte(data)}).Error(); got != want {
			t.Errorf("%q: %q, not %q", data, got, want)
		}
	}
	e := &RejectedError{PrivateData: []byte("busy")}
	var as *RejectedError
	if !errors.As(fmt.Errorf("connect: %w", e), &as) || as != e {
		t.Error("lost in wrapping")
	}
}

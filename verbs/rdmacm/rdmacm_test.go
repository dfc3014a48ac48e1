package rdmacm

import (
	"errors"
	"fmt"
	"testing"
)

func TestRejectedError(t *testing.T) {
	e := &RejectedError{PrivateData: []byte("busy")}
	if got, want := e.Error(), "connection rejected by peer (4 bytes of private data)"; got != want {
		t.Errorf("%q, not %q", got, want)
	}
	var as *RejectedError
	if !errors.As(fmt.Errorf("connect: %w", e), &as) || as != e {
		t.Error("lost in wrapping")
	}
}

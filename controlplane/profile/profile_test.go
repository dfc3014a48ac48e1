package profile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"testing"
	"time"
)

// TestKinds: each profile has its format, and no profile over a time is left on.
func TestKinds(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 {
		for _, k := range kinds {
			var b bytes.Buffer
			if err := Write(over, &b, k.name, time.Hour); err != nil {
				t.Errorf("%s: %v", k.name, err)
				continue
			}
			if k.name == "trace" {
				if !bytes.HasPrefix(b.Bytes(), []byte("go 1.")) {
					t.Errorf("trace begins with %q", b.Bytes()[:min(16, b.Len())])
				}
				continue
			}
			z, err := gzip.NewReader(&b)
			if err != nil {
				t.Fatalf("%s: %v", k.name, err)
			}
			if text, err := io.ReadAll(z); err != nil || len(text) == 0 {
				t.Errorf("%s: %d bytes, %v", k.name, len(text), err)
			}
		}
	}
	if err := Write(t.Context(), io.Discard, "loud", 0); err == nil {
		t.Error("there is a profile loud")
	}
}

// began is a writer that shows when a trace has begun.
type began struct{ c chan struct{} }

func (b began) Write(p []byte) (int, error) {
	select {
	case b.c <- struct{}{}:
	default:
	}
	return len(p), nil
}

// TestOneAtATime: while a profile over a time is taken, another one is refused, and a profile of
// a moment is not.
func TestOneAtATime(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := began{make(chan struct{}, 1)}
	ended := make(chan error, 1)
	go func() { ended <- Write(ctx, w, "trace", time.Hour) }()
	<-w.c
	for name, want := range map[string]error{"cpu": ErrBusy, "mutex": ErrBusy, "heap": nil} {
		if err := Write(t.Context(), io.Discard, name, time.Hour); !errors.Is(err, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

// TestWriteFails: the error of the writer is returned.
func TestWriteFails(t *testing.T) {
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for _, k := range kinds {
		if err := Write(over, full{}, k.name, time.Hour); !errors.Is(err, errFull) {
			t.Errorf("%s: %v", k.name, err)
		}
	}
}

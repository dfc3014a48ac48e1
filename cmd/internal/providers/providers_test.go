package providers

import (
	"bytes"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	if names := Names(); !slices.Contains(names, Default) || !slices.IsSorted(names) {
		t.Errorf("names %v", names)
	}
}

func TestOpenUnknown(t *testing.T) {
	_, err := Open("carrier-pigeon", Options{Logger: slog.Default()})
	var unknown *UnknownError
	if !errors.As(err, &unknown) || !strings.Contains(err.Error(), Default) {
		t.Errorf("got %v", err)
	}
}

func TestSet(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	s := make(Set)
	one, err := s.Open(Default, Options{Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	if one.Name() != Default {
		t.Errorf("%s gives %s", Default, one.Name())
	}
	if again, err := s.Open(Default, Options{Logger: logger}); err != nil || again != one {
		t.Errorf("another one, %v", err)
	}
	l, err := one.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Close(logger) // in use
	if !strings.Contains(log.String(), "provider not closed") || len(s) != 0 {
		t.Errorf("log %q, set %v", log.String(), s)
	}
	l.Close()
	if err := one.Close(); err != nil {
		t.Error(err)
	}
}

package main

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		http.DefaultClient.CloseIdleConnections()
		os.Exit(code)
	}))
}

// inTemp gives the demonstration a folder for temporary files of its own,
// and wants it empty in the end.
func inTemp(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("GOTMPDIR", t.TempDir()) // what go build leaves is not ours
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
			t.Errorf("left behind: %v, %v", left, err)
		}
	})
}

func TestDemo(t *testing.T) {
	inTemp(t)
	var out bytes.Buffer
	if err := run(t.Context(), "", &out, (*demo).one); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"every byte right", "read back, the same", "$ rdmactl connections list", "APPLIED", "DEGRADED  reload", "none lost", "exit code 0", "Done in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %q in:\n%s", want, out.String())
		}
	}
}

func TestFleetDemo(t *testing.T) {
	inTemp(t)
	var out bytes.Buffer
	if err := run(t.Context(), "", &out, (*demo).fleet); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, want := range []string{"small@1", "DONE", "HALTED", "the change is UNSUPPORTED on 1 connections", "ROLLED_BACK", "TAKEN_BACK", "none failed", "Done in"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("nothing says %q in:\n%s", want, out.String())
		}
	}
}

func TestDemoCleansUpAfterFailure(t *testing.T) {
	for _, c := range []struct{ name, rdmad, want string }{
		{"rdmad refuses", "#!/bin/sh\necho 'rdmad: no luck' >&2\nexit 2\n", "rdmad did not start: rdmad: no luck (exit status 2)"},
		{"rdmad listens nowhere", "#!/bin/sh\necho '{\"msg\":\"ready\"}' >&2\nexec cat /dev/zero >/dev/null\n", "NULL: fork/exec "},
	} {
		t.Run(c.name, func(t *testing.T) {
			inTemp(t)
			bin := t.TempDir()
			if err := os.WriteFile(filepath.Join(bin, "rdmad"), []byte(c.rdmad), 0o700); err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			if err := run(t.Context(), bin, &out, (*demo).one); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("error %v, want %s", err, c.want)
			}
			if strings.Contains(out.String(), "Done") {
				t.Errorf("claims to be done:\n%s", out.String())
			}
		})
	}
}

func TestDemoCanBeInterrupted(t *testing.T) {
	inTemp(t)
	bin := t.TempDir()
	silent := "#!/bin/sh\nexec cat /dev/zero >/dev/null\n"
	if err := os.WriteFile(filepath.Join(bin, "rdmad"), []byte(silent), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("enough")
	started := writerFunc(func(p []byte) (int, error) {
		if strings.Contains(string(p), "softiwarp") {
			cancel(stop)
		}
		return len(p), nil
	})
	if err := run(ctx, bin, started, (*demo).one); !errors.Is(err, stop) {
		t.Errorf("error %v", err)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

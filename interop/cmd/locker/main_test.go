package main

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	if os.Getenv("LOCKER") != "" {
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestHoldOutlivesSignals sends a holder the signal with which Go's runtime
// stops a goroutine that runs for long. Only SIGKILL ends it.
func TestHoldOutlivesSignals(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "hold", file, "0", "10")
	cmd.Env = append(os.Environ(), "LOCKER=1")
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "locked\n" {
		t.Fatal(line, err)
	}
	for range 20 {
		if err := cmd.Process.Signal(unix.SIGURG); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond) // for the signal to arrive
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if status := exit.Sys().(interface{ Signal() unix.Signal }); status.Signal() != unix.SIGKILL {
		t.Fatal(exit)
	}
}

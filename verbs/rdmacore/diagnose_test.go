//go:build rdmacore && cgo

package rdmacore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs/inventory"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// Each missing thing is named, in the order in which it is noticed.
func TestAdvice(t *testing.T) {
	class, files := t.TempDir(), t.TempDir()
	expect := func(want string) {
		t.Helper()
		if got := advice(class, files); !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	expect("this machine has no RDMA device")
	must(t, os.Mkdir(filepath.Join(class, "siw0"), 0o755))
	expect("modprobe rdma_ucm")
	for _, next := range []struct{ file, want string }{{"rdma_cm", "modprobe ib_uverbs"}, {"uverbs0", "ibverbs-providers"}} {
		must(t, os.WriteFile(filepath.Join(files, next.file), nil, 0o600))
		expect(next.want)
	}
}

// The error for an unknown device names the devices of the machine.
func TestAdviceNoDevice(t *testing.T) {
	const others = "this machine has rxe0, siw0 (providers.rdmacore.device)"
	names := []string{"rxe0", "siw0"}
	for _, c := range []struct {
		configured string
		names      []string
		others     bool
	}{{"mlx5_0", names, true}, {"siw0", names, false}, {"", names, false}, {"mlx5_0", nil, false}} {
		err := noDevice(c.configured, c.names, nil)
		if got := strings.Contains(err.Error(), others); got != c.others || !strings.HasPrefix(err.Error(), strings.TrimSpace("rdmacore: no device "+c.configured)+": ") {
			t.Errorf("%q of %q: %v", c.configured, c.names, err)
		}
	}
	if err := noDevice("siw0", names, syscall.EACCES); !errors.Is(err, syscall.EACCES) {
		t.Errorf("one that could not be opened: %v", err)
	}
}

// New fails with one line on a machine without a device, like this one.
func TestNewWithoutDevice(t *testing.T) {
	if entries, _ := os.ReadDir(inventory.ClassDir); len(entries) > 0 {
		return
	}
	_, err := New(Config{})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "no RDMA device") {
		t.Errorf("got %v", err)
	}
}

func TestAdviceOnFiles(t *testing.T) {
	err := fmt.Errorf("completion channel: %w", syscall.EMFILE)
	if got := filesError(err); !errors.Is(got, err) || !strings.Contains(got.Error(), "raise ulimit -n, or LimitNOFILE of the service") {
		t.Errorf("got %v", got)
	}
	if got := filesError(syscall.ENOMEM); got.Error() != syscall.ENOMEM.Error() {
		t.Errorf("got %v", got)
	}
}

func TestConfigRanges(t *testing.T) {
	for _, c := range []Config{
		{Tuning: tuning.Settings{RetryCount: 8}}, {Tuning: tuning.Settings{BusyPoll: 2 * tuning.MaxBusyPoll}}, {ResolveTimeout: -1}, {Backlog: -1},
	} {
		if _, err := c.withDefaults(); err == nil {
			t.Errorf("%+v passed", c)
		}
	}
	c, err := Config{Tuning: tuning.Settings{Device: "siw0", BusyPoll: time.Microsecond}}.withDefaults()
	want := tuning.Default()
	want.Device, want.BusyPoll, want.KeepAlive = "siw0", time.Microsecond, 0
	if err != nil || c.Tuning != want {
		t.Errorf("got %+v, %v", c, err)
	}
	want.RNRRetryCount = 0
	if c, err := (Config{Tuning: want}).withDefaults(); err != nil || c.Tuning != want {
		t.Errorf("without RNR retries: %+v, %v", c, err)
	}
}

// The error for an address is the kernel's error and what it means here.
func TestAdviceAddress(t *testing.T) {
	err := noAddressError{syscall.EADDRNOTAVAIL}
	const want = "cannot assign requested address: no RDMA device has this address"
	if reason := err.BindReason(); reason.Error() != want || !errors.Is(reason, syscall.EADDRNOTAVAIL) {
		t.Errorf("got %v, want %s", reason, want)
	}
}

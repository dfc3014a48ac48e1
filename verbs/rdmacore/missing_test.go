//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/verbs"
)

// childVariable makes this binary use the device and report the result.
const childVariable = "RDMACORE_CHILD"

// lockedKiB is how much memory a child may lock.
const lockedKiB = 256

func init() {
	if os.Getenv(childVariable) == "" {
		return
	}
	child = func() {
		if err := useDevice(); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
}

func useDevice() (err error) {
	p, err := New(Config{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	pd, err := p.Device().AllocPD()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pd.Close()) }()
	limit := unix.Rlimit{Cur: lockedKiB << 10, Max: lockedKiB << 10} // siw applies the limit to root as well
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &limit); err != nil {
		return err
	}
	mr, err := pd.RegMR(make([]byte, 4*lockedKiB<<10), verbs.AccessLocalWrite)
	if err != nil {
		return err
	}
	return mr.Close()
}

// The error for what a machine lacks is one line that says what to do. The test needs a
// process that has not used the device, because librdmacm would keep it open.
func TestMissing(t *testing.T) {
	const files, nobody = "/dev/infiniband/", 65534
	kind := strings.TrimSuffix(*deviceFlag, "0")
	for _, c := range []struct {
		name, take, giveBack string
		user                 uint32
		want                 string
	}{
		{"device", "rdma link del " + *deviceFlag, "rdma link add " + *deviceFlag + " type " + kind + " netdev " + network, 0,
			"this machine has no RDMA device; a software one: rdma link add"},
		{"connection manager", "mv " + files + "rdma_cm /tmp", "mv /tmp/rdma_cm " + files, 0, files + "rdma_cm is missing: modprobe rdma_ucm"},
		{"verbs", "mv " + files + "uverbs0 /tmp", "mv /tmp/uverbs0 " + files, 0, files + "uverbs0 is missing: modprobe ib_uverbs"},
		{"right", "chmod 600 " + files + "*", "true", nobody, "may not be opened: run rdmad as root or give its group the right to"},
		{"locked memory", "chmod 666 " + files + "*", "chmod 600 " + files + "*", nobody,
			fmt.Sprintf("only %d KiB may be locked: raise ulimit -l, or LimitMEMLOCK of the service", lockedKiB)},
	} {
		t.Run(c.name, func(t *testing.T) {
			system(t, c.take)
			defer system(t, c.giveBack)
			cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
			cmd.Env = append(os.Environ(), childVariable+"=1")
			cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: c.user, Gid: c.user}}
			out, err := cmd.CombinedOutput()
			said := strings.TrimSuffix(string(out), "\n")
			if err == nil || !strings.Contains(said, c.want) || strings.Contains(said, "\n") {
				t.Errorf("%v, said %q, want %q in one line", err, said, c.want)
			}
		})
	}
}

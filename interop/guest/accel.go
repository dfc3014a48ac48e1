package guest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/rdmad/rdmad/interop/guest/image"
)

// accelEnv is the variable that overrides the choice: "kvm" or "tcg".
const accelEnv = "RDMAD_GUEST_ACCEL"

// kvmProbeTime is several times what a kernel under KVM needs until it panics
// without a root file system.
const kvmProbeTime = 8 * time.Second

var (
	kvmAccel = []string{"-accel", "kvm", "-cpu", "host"}
	tcgAccel = []string{"-accel", "tcg,thread=multi,tb-size=512", "-cpu", "max"}
)

// accelerator returns QEMU's arguments for KVM if it works, otherwise for
// emulation.
func accelerator(img image.Image) ([]string, error) {
	choice := os.Getenv(accelEnv)
	if choice == "" {
		works, err := kvmWorks(img)
		if err != nil {
			return nil, err
		}
		choice = "tcg"
		if works {
			choice = "kvm"
		}
	}
	switch choice {
	case "kvm":
		return kvmAccel, nil
	case "tcg":
		return tcgAccel, nil
	}
	return nil, fmt.Errorf("guest: %s=%s: want kvm or tcg", accelEnv, choice)
}

// kvmWorks reports whether this kernel boots under KVM on this machine. It
// tries to boot one, because /dev/kvm may exist, and even run code, on a
// machine where an ordinary kernel hangs. The answer is stored beside the image
// until the machine reboots.
func kvmWorks(img image.Image) (bool, error) {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false, nil //nolint:nilerr // no KVM is an answer
	}
	f.Close()
	bootID, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return false, fmt.Errorf("guest: %w", err)
	}
	memo := filepath.Join(filepath.Dir(img.Kernel), "kvm-"+strings.TrimSpace(string(bootID)))
	switch answer, err := os.ReadFile(memo); {
	case err == nil:
		return string(answer) == "yes", nil
	case !errors.Is(err, fs.ErrNotExist):
		return false, fmt.Errorf("guest: %w", err)
	}
	answer := "no"
	if bootsUnderKVM(img.Kernel) {
		answer = "yes"
	}
	if err := os.WriteFile(memo, []byte(answer), 0o644); err != nil {
		return false, fmt.Errorf("guest: %w", err)
	}
	return answer == "yes", nil
}

// bootsUnderKVM boots a kernel without a root file system. KVM works if the
// kernel gets as far as its panic and restarts, which ends QEMU.
func bootsUnderKVM(kernel string) bool {
	ctx, cancel := context.WithTimeout(context.Background(), kvmProbeTime)
	defer cancel()
	args := append([]string{}, kvmAccel...)
	args = append(args, "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-m", "256", "-kernel", kernel, "-append", "console=ttyS0 panic=-1", "-serial", "stdio")
	out, err := exec.CommandContext(ctx, qemuProgram, args...).CombinedOutput()
	return err == nil && bytes.Contains(out, []byte("Kernel panic - not syncing"))
}

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// environment is the environment of every program that the agent runs.
var environment = []string{
	"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "TERM=linux", "LANG=C",
}

// mountPoint is one file system mounted at boot.
type mountPoint struct{ fstype, dir, data string }

var mountPoints = []mountPoint{
	{"proc", "/proc", ""}, {"sysfs", "/sys", ""}, {"devtmpfs", "/dev", ""},
	{"devpts", "/dev/pts", ""}, {"tmpfs", "/dev/shm", ""},
	{"tmpfs", "/run", ""}, {"tmpfs", "/tmp", ""},
	{"debugfs", "/sys/kernel/debug", ""}, {"tracefs", "/sys/kernel/tracing", ""},
}

func mountAll() error {
	for _, m := range mountPoints {
		if err := m.mount(m.fstype); err != nil {
			return err
		}
	}
	return nil
}

func (m mountPoint) mount(source string) error {
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(source, m.dir, m.fstype, 0, m.data); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", m.fstype, m.dir, err)
	}
	return nil
}

// virtioModules are the modules that the guest needs to talk to the host.
// Scripts load the other modules that they use.
var virtioModules = []string{"virtio_pci", "virtio_console", "virtio_net", "virtio_rng", "9pnet_virtio", "9p"}

// network configures the guest's side of QEMU's user networking.
const network = `ip link set lo up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2`

// setUp prepares the guest as tests expect it.
func setUp(p params) error {
	commands := [][]string{
		{"/bin/busybox", "--install", "-s", "/bin"},
		append([]string{"/sbin/modprobe", "-a"}, virtioModules...),
		{"/bin/sh", "-ec", network},
	}
	for _, argv := range commands {
		if err := execute(argv...); err != nil {
			return err
		}
	}
	for _, s := range p.shares {
		data := "trans=virtio,version=9p2000.L,msize=262144"
		if err := (mountPoint{"9p", s.dir, data}).mount(s.tag); err != nil {
			return err
		}
	}
	return unix.Sethostname([]byte("guest"))
}

func execute(argv ...string) error {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = environment
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// share is a directory of the host that the guest mounts.
type share struct{ tag, dir string }

// params are the agent's parameters on the kernel command line.
type params struct {
	shares []share
	shell  bool
}

func readParams(path string) (params, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return params{}, err
	}
	return parseParams(string(text))
}

// parseParams parses any number of rdmad.share=TAG:DIR, and rdmad.shell.
func parseParams(cmdline string) (params, error) {
	var p params
	for word := range strings.FieldsSeq(cmdline) {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "rdmad.share":
			tag, dir, ok := strings.Cut(value, ":")
			if !ok || tag == "" || !filepath.IsAbs(dir) {
				return params{}, fmt.Errorf("bad share %q", word)
			}
			p.shares = append(p.shares, share{tag, dir})
		case "rdmad.shell":
			p.shell = true
		}
	}
	return p, nil
}

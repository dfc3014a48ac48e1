package guest

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

const (
	qemuProgram = "qemu-system-x86_64"
	portName    = "rdmad.agent" // name of the virtio-serial port, the same in the agent
)

// machine is the input for QEMU's command line.
type machine struct {
	options   Options
	accel     []string // see accelerator
	kernel    string
	initramfs string
	agentSock string      // Unix socket on which this process listens
	forwards  map[int]int // guest port -> host port
}

// args returns QEMU's arguments.
func (m machine) args() []string {
	o := m.options
	args := append([]string{}, m.accel...)
	args = append(args,
		"-smp", strconv.Itoa(o.CPUs), "-m", strconv.Itoa(o.MemoryMiB),
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-kernel", m.kernel, "-initrd", m.initramfs, "-append", m.cmdline(),
		"-netdev", m.netdev(), "-device", "virtio-net-pci,netdev=net0,romfile=",
		"-device", "virtio-rng-pci",
		"-device", "virtio-serial-pci",
		"-chardev", "socket,id=agent,path="+m.agentSock,
		"-device", "virtserialport,chardev=agent,name="+portName,
		"-chardev", m.console(), "-serial", "chardev:console",
	)
	if o.Capture != "" {
		args = append(args, "-object", "filter-dump,id=capture,netdev=net0,maxlen=65535,file="+o.Capture)
	}
	for i, disk := range o.Disks {
		args = append(args, "-drive", fmt.Sprintf("if=none,id=disk%d,format=raw,cache=writeback,file=%s", i, disk),
			"-device", fmt.Sprintf("virtio-blk-pci,drive=disk%d", i))
	}
	for _, s := range o.Shares {
		args = append(args, "-virtfs", fmt.Sprintf(
			"local,path=%s,mount_tag=%s,security_model=none,multidevs=remap", s.Dir, s.Tag))
	}
	return args
}

// console connects the serial port to this process's standard files. Only with
// a shell do signal characters of the terminal go to the guest.
func (m machine) console() string {
	if m.options.Shell {
		return "stdio,id=console,signal=off"
	}
	return "stdio,id=console"
}

// cmdline makes the kernel, and QEMU with it, end at the first oops.
// no_timer_check keeps the kernel from testing its timer: on a busy machine ten
// ticks of an emulated timer may take too long.
func (m machine) cmdline() string {
	words := []string{"console=ttyS0", "loglevel=5", "oops=panic", "panic=-1",
		"mitigations=off", "no_timer_check", "random.trust_cpu=on", "rdinit=/init"}
	for _, s := range m.options.Shares {
		words = append(words, "rdmad.share="+s.Tag+":"+s.At)
	}
	if m.options.Shell {
		words = append(words, "rdmad.shell")
	}
	return strings.Join(append(words, m.options.Append...), " ")
}

func (m machine) netdev() string {
	var b strings.Builder
	b.WriteString("user,id=net0")
	for _, guestPort := range m.options.Forward {
		fmt.Fprintf(&b, ",hostfwd=tcp:127.0.0.1:%d-10.0.2.15:%d", m.forwards[guestPort], guestPort)
	}
	return b.String()
}

// freePorts chooses a free TCP port of 127.0.0.1 for each guest port. If
// another process takes one before QEMU does, QEMU ends and Start tries again.
func freePorts(guestPorts []int) (map[int]int, error) {
	ports := make(map[int]int, len(guestPorts))
	for _, guestPort := range guestPorts {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("guest: choosing a port: %w", err)
		}
		defer l.Close() // only at the end: the ports must differ
		ports[guestPort] = l.Addr().(*net.TCPAddr).Port
	}
	return ports, nil
}

package doctor

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rdmad/rdmad/dataplane/rpctcp"
)

// ThisMachine returns the machine on which the process runs.
func ThisMachine() Machine {
	return Machine{
		Root: os.DirFS("/"), LookPath: lookPath, Release: release(), Now: time.Now, MTU: mtuOf, RPCBind: "111",
		Lookup: func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		},
		Dial: dial,
	}
}

// dial connects from a reserved port, as mount(8) does, or from another one if it has no right to those.
func dial(ctx context.Context, address string) (nc net.Conn, reserved bool, err error) {
	var d net.Dialer
	if nc, err = rpctcp.DialReserved(ctx, d, address); !errors.Is(err, syscall.EACCES) {
		return nc, true, err
	}
	nc, err = d.DialContext(ctx, "tcp", address)
	return nc, false, err
}

// lookPath looks where mount(8) does as well, which is not on every user's PATH.
func lookPath(program string) (string, error) {
	for _, dir := range []string{"/sbin", "/usr/sbin"} {
		if at, err := exec.LookPath(path.Join(dir, program)); err == nil {
			return at, nil
		}
	}
	return exec.LookPath(program)
}

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return unix.ByteSliceToString(u.Release[:])
}

func mtuOf(a netip.Addr) (string, int) {
	all, _ := net.Interfaces()
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, n := range addrs {
			if p, err := netip.ParsePrefix(n.String()); err == nil && p.Addr().Unmap() == a {
				return i.Name, i.MTU
			}
		}
	}
	return "", 0
}

// mountProgram looks for mount.nfs.
func (v *visit) mountProgram(context.Context) Finding {
	at, err := v.Machine.LookPath("mount.nfs")
	if err != nil {
		return fail("there is no mount.nfs on this machine", "apt install nfs-common, or dnf install nfs-utils")
	}
	return ok(at)
}

// rdmaModule is the kernel's RPC-over-RDMA. xprtrdma is its older name.
const rdmaModule = "rpcrdma"

// module looks for it: loaded, built in, or there to be loaded.
func (v *visit) module(context.Context) Finding {
	if _, err := fs.Stat(v.Machine.Root, "sys/module/"+rdmaModule); err == nil {
		return ok(rdmaModule + " is loaded")
	}
	dir := path.Join("lib/modules", v.Machine.Release)
	for _, list := range []string{"modules.builtin", "modules.dep"} {
		if v.listed(path.Join(dir, list)) {
			return ok(rdmaModule + " is there and not loaded: a mount loads it")
		}
	}
	return fail("kernel "+v.Machine.Release+" has no module "+rdmaModule, "install the kernel's full package of modules (Debian: linux-image-amd64, not -cloud), then modprobe "+rdmaModule)
}

// listed says whether a list of modules has it.
func (v *visit) listed(list string) bool {
	text, err := fs.ReadFile(v.Machine.Root, list)
	if err != nil {
		return false
	}
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		name, _, _ := strings.Cut(lines.Text(), ":")
		name, _, _ = strings.Cut(path.Base(name), ".ko")
		if name == rdmaModule {
			return true
		}
	}
	return false
}

// device looks for an RDMA device of the kernel that a mount could use.
func (v *visit) device(context.Context) Finding {
	const class = "sys/class/infiniband"
	devices, _ := fs.ReadDir(v.Machine.Root, class)
	var down []string
	for _, d := range devices {
		ports, _ := fs.ReadDir(v.Machine.Root, path.Join(class, d.Name(), "ports"))
		for _, p := range ports {
			state, _ := fs.ReadFile(v.Machine.Root, path.Join(class, d.Name(), "ports", p.Name(), "state"))
			if bytes.Contains(state, []byte("ACTIVE")) {
				return ok(d.Name() + " is active")
			}
			down = append(down, d.Name()+" port "+p.Name())
		}
	}
	if len(down) > 0 {
		return fail("no RDMA port is active: "+strings.Join(down, ", "), "bring the interface under it up: ip link set DEVICE up")
	}
	return fail("this machine's kernel has no RDMA device", "for soft-iWARP: modprobe siw && rdma link add siw0 type siw netdev eth0; for an adapter: its driver, and rdma-core")
}

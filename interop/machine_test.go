package interop

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

// machine is a Debian system with systemd, without a kernel of its own: a
// process namespace of a guest, whose network and kernel it shares. It has
// dpkg, and of other packages the files and no more.
type machine struct{ g *guest.Guest }

// machineTime bounds one script in a machine, on a busy host too.
const machineTime = 6 * time.Minute

// bootMachine starts a machine in a guest and waits until systemd has started
// everything. /host is the guest's.
func bootMachine(t *testing.T, g *guest.Guest) machine {
	t.Helper()
	writeMachine(t, filepath.Join(g.ShareDir, "machine.tar"))
	g.MustRun(t, machineTime, machineScript)
	m := machine{g}
	// Units of Debian's that can't work here are none of the test's.
	m.run(t, "systemctl is-system-running --wait || true; systemctl reset-failed")
	return m
}

// machineScript makes the root the top of a mount namespace, as an initramfs
// does when it is done, so that systemd can give services roots of their own.
const machineScript = `set -e
mkdir /machine
mount -t tmpfs -o size=900m,mode=755 machine /machine
EXTRACT_UNSAFE_SYMLINKS=1 tar -xf /host/machine.tar -C /machine
cp /machine/usr/share/base-passwd/passwd.master /machine/etc/passwd
cp /machine/usr/share/base-passwd/group.master /machine/etc/group
echo 'alice:x:1000:1000::/:/bin/sh' >>/machine/etc/passwd
echo 'alice:x:1000:' >>/machine/etc/group
mkdir -p /machine/host
mount --bind /host /machine/host
for dir in dev sys; do mount --rbind /$dir /machine/$dir; done
mount -t tmpfs -o mode=755 run /machine/run
mount -t cgroup2 cgroup2 /machine/sys/fs/cgroup
unshare -m -p -i -u -f sh -ec '
	mount --make-rprivate /
	mount -t proc proc /machine/proc
	cd /machine
	mount --move . /
	exec chroot . /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=guest /lib/systemd/systemd' </dev/null >/machine.log 2>&1 &
parent=$!
until pid=$(cat /proc/$parent/task/$parent/children) && [ -n "$pid" ] && [ -S /proc/${pid% }/root/run/systemd/private ]; do
	kill -0 $parent || { cat /machine.log; exit 1; }
	sleep 0.2
done
echo ${pid% } >/machine.pid
`

// run runs a script in the machine, as root.
func (m machine) run(t *testing.T, script string) string {
	t.Helper()
	return m.g.MustRun(t, machineTime, inMachine(script))
}

// fails runs a script in the machine that must fail, and returns its output.
func (m machine) fails(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), machineTime)
	defer cancel()
	r, err := m.g.Run(ctx, inMachine(script))
	if err != nil || r.Code == 0 {
		t.Fatalf("in the machine: exit code %d, error %v, want a failure\n%s\n%s%s", r.Code, err, script, r.Stdout, r.Stderr)
	}
	return r.Stdout + r.Stderr
}

// shellNot is a command for scripts: "!" would not end one that runs with -e.
const shellNot = `not() { ! "$@"; }; `

func inMachine(script string) string {
	return "nsenter -t $(cat /machine.pid) -m -p -i -u -- /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 /bin/sh -ec '" +
		strings.ReplaceAll(shellNot+script, "'", `'\''`) + "'"
}

// writeMachine writes the machine's root as a tar archive, with what dpkg has
// to know of its packages.
func writeMachine(t *testing.T, file string) {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	w := &machineWriter{tar: tar.NewWriter(buffered), seen: map[string]bool{}}
	for _, dir := range []string{"bin", "sbin", "lib", "lib64"} {
		w.add(tar.Header{Typeflag: tar.TypeDir, Name: "usr/" + dir, Mode: 0o755}, nil)
		w.add(tar.Header{Typeflag: tar.TypeSymlink, Name: dir, Linkname: "usr/" + dir}, nil)
	}
	for _, dir := range []string{"dev", "etc", "proc", "root", "run", "srv", "sys", "tmp", "var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"} {
		w.add(tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755}, nil)
	}
	for _, deb := range machinePackages(t) {
		if err := w.unpack(deb); err != nil {
			t.Fatalf("%s: %v", deb, err)
		}
	}
	for name, text := range map[string]string{
		"var/lib/dpkg/status": w.status.String(), "var/lib/dpkg/available": "",
		"etc/machine-id": "", "etc/hostname": "machine\n",
		"etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
	} {
		w.add(tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text))}, strings.NewReader(text))
	}
	if err := errors.Join(w.err, w.tar.Close(), buffered.Flush(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// machinePackages are the files of the packages that the machine is made of.
func machinePackages(t *testing.T) []string {
	t.Helper()
	cmd := exec.Command("sh", "deps.sh", "machine")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("deps.sh machine: %v\n%s", err, &stderr)
	}
	lock := strings.TrimSpace(string(out))
	text, err := os.ReadFile(lock)
	if err != nil {
		t.Fatal(err)
	}
	var debs []string
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "deb "); ok {
			debs = append(debs, filepath.Join(filepath.Dir(lock), "debs", name))
		}
	}
	return debs
}

// machineWriter puts packages together.
type machineWriter struct {
	tar    *tar.Writer
	seen   map[string]bool // names in it: busybox's tar trips over a second one
	status bytes.Buffer    // of dpkg
	err    error           // the first
}

func (w *machineWriter) add(h tar.Header, r io.Reader) {
	if w.err != nil || w.seen[h.Name] {
		return
	}
	w.seen[h.Name] = true
	if w.err = w.tar.WriteHeader(&h); w.err == nil && r != nil {
		_, w.err = io.Copy(w.tar, r)
	}
}

// unpack adds a package's files but for documentation, and says that it is
// installed.
func (w *machineWriter) unpack(deb string) error {
	control, err := exec.Command("dpkg-deb", "--field", deb).Output()
	if err != nil {
		return err
	}
	fmt.Fprintf(&w.status, "%sStatus: install ok installed\n\n", control)
	cmd := exec.Command("dpkg-deb", "--fsys-tarfile", deb)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	copyErr := w.copy(tar.NewReader(out))
	io.Copy(io.Discard, out)
	return errors.Join(copyErr, cmd.Wait())
}

func (w *machineWriter) copy(r *tar.Reader) error {
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		name := mergedUsr(path.Clean(h.Name))
		if name == "." || h.Typeflag == tar.TypeDir && mergedUsr(name+"/x") != name+"/x" ||
			strings.HasPrefix(name, "usr/share/doc") || strings.HasPrefix(name, "usr/share/locale") || strings.HasPrefix(name, "usr/share/man") {
			continue
		}
		h.Name, h.Format = name, tar.FormatUnknown
		if h.Typeflag == tar.TypeLink {
			h.Linkname = mergedUsr(path.Clean(h.Linkname))
		}
		w.add(*h, r)
		if w.err != nil {
			return fmt.Errorf("%s: %w", name, w.err)
		}
	}
}

// mergedUsr is where a path is whose first directory has moved to /usr.
func mergedUsr(name string) string {
	switch first, _, below := strings.Cut(name, "/"); first {
	case "bin", "sbin", "lib", "lib64":
		if below {
			return "usr/" + name
		}
	}
	return name
}

package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// TestDebianPackage takes rdmad's packages through their life on a machine with
// systemd: installed, used by a kernel client over RDMA, configured, upgraded,
// removed and purged. With -long, package rdmad-rdmacore comes to it before the
// upgrade and goes before the other, and the watchdog replaces a process that hangs.
func TestDebianPackage(t *testing.T) {
	g := guest.Boot(t, guest.Options{})
	names := []string{"rdmad"}
	if *longFlag {
		names = append(names, "rdmad-rdmacore")
	}
	packages(t, g.ShareDir, names)
	g.UseRDMA(t, guest.SIWPlain)
	m := bootMachine(t, g)
	for _, step := range []struct {
		name string
		do   func(*testing.T, machine)
		long bool
	}{
		{"install", debInstall, false}, {"who may", debAccess, false}, {"reload and mount", debMount, false},
		{"hardened", debHardened, false}, {"restart", debRestart, false}, {"hang", debHang, true},
		{"rdmacore", debRdmacore, true}, {"upgrade", debUpgrade, false}, {"remove rdmacore", debRemoveRdmacore, true},
		{"remove", debRemove, false}, {"purge", debPurge, false},
	} {
		if step.long && !*longFlag {
			continue
		}
		if !t.Run(step.name, func(t *testing.T) { step.do(t, m) }) {
			t.Logf("the machine's journal:\n%s", m.run(t, "journalctl -b -o cat -u rdmad.service -u rdmad.socket | tail -n 60"))
			return
		}
	}
}

// packages builds the packages in two versions. It builds one of them again to
// check that the build is reproducible.
func packages(t *testing.T, dir string, names []string) {
	t.Helper()
	defer guest.Busy()()
	built := t.TempDir()
	bins := map[string]string{"rdmad": built, "rdmad-rdmacore": filepath.Join(built, "rdmacore")}
	targets := map[string]string{"rdmad": "build", "rdmad-rdmacore": "build-rdmacore"}
	for _, version := range []string{"v1.0.0", "v2.0.0"} {
		for _, name := range names {
			mustRun(t, exec.Command("make", "-C", "..", targets[name], "BIN="+built, "VERSION="+version))
			makePackage(t, name, version, bins[name], dir)
		}
	}
	again := t.TempDir()
	for _, name := range names {
		makePackage(t, name, "v2.0.0", bins[name], again)
		file := name + "_2.0.0-1_amd64.deb"
		mustRun(t, exec.Command("cmp", filepath.Join(dir, file), filepath.Join(again, file)))
	}
}

func makePackage(t *testing.T, name, version, bin, dir string) {
	t.Helper()
	cmd := exec.Command("../configs/debian/build.sh", name, bin, dir)
	// Not compressed: it takes long, and longer to undo under emulation.
	cmd.Env = append(os.Environ(), "VERSION="+version, "SOURCE_DATE_EPOCH=1700000000", "COMPRESSION=none")
	mustRun(t, cmd)
}

func mustRun(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, out)
	}
}

// ctl is rdmactl on the packaged control socket.
const ctl = "rdmactl --timeout 60s --addr unix:///run/rdmad/control.sock "

// journal prints the whole log of rdmad and of systemd about the service.
const journal = "journalctl --sync; journalctl -b -o cat -u rdmad"

// expect runs a script in the machine and requires words in its output.
func (m machine) expect(t *testing.T, script string, words ...string) {
	t.Helper()
	out := m.run(t, script)
	for _, w := range words {
		if !strings.Contains(out, w) {
			t.Errorf("%s: no %q in\n%s", script, w, out)
		}
	}
}

func debInstall(t *testing.T, m machine) {
	m.run(t, "dpkg -i /host/rdmad_1.0.0-1_amd64.deb </dev/null")
	m.run(t, "systemctl is-active rdmad.service rdmad.socket; systemctl is-enabled rdmad.service rdmad.socket")
	m.expect(t, "systemctl show rdmad", "Type=notify", "WatchdogUSec=30s", "LimitMEMLOCK=infinity", "NRestarts=0", "NoNewPrivileges=yes")
	m.expect(t, "systemctl cat rdmad", "MemoryHigh=80%", "MemoryMax=90%")
	m.expect(t, ctl+"status", "v1.0.0")
	m.expect(t, "stat -c '%U %G %a' /run/rdmad/control.sock /var/lib/rdmad /etc/rdmad/rdmad.yaml",
		"root rdmad 660", "root root 700", "root root 644")
	if out := m.run(t, "systemd-analyze --man=no verify rdmad.service rdmad.socket 2>&1"); out != "" {
		t.Errorf("systemd-analyze verify:\n%s", out)
	}
	m.run(t, "rdmad check --config /etc/rdmad/rdmad.yaml")
	m.run(t, "cd /usr/share/rdmad && ls prometheus/rules.yaml prometheus/alerts.yaml grafana/rdmad.json")
	m.run(t, "sh -n /usr/share/bash-completion/completions/rdmactl || bash -n /usr/share/bash-completion/completions/rdmactl")
	// Type=notify and the socket: the service was ready when dpkg was done, and
	// the listener is systemd's.
	m.expect(t, journal, "msg=ready", "address=unix:///run/rdmad/control.sock")
}

// debAccess has the kernel say who comes through systemd's socket.
func debAccess(t *testing.T, m machine) {
	const alice = "setpriv --reuid 1000 --regid 1000 --init-groups "
	m.fails(t, alice+ctl+"status")
	m.run(t, `sed -i "s/^rdmad:x:\([0-9]*\):.*/rdmad:x:\1:alice/" /etc/group`)
	m.expect(t, alice+ctl+"status", "v1.0.0")
	m.run(t, alice+ctl+"settings set credits.max=32")
	m.expect(t, "grep SetSettings /var/lib/rdmad/audit.log || cat /var/lib/rdmad/audit.log", "uid 1000 (alice)")
}

// debMount opens the export to the network, as an administrator does, and
// mounts it over RDMA with the kernel's client.
func debMount(t *testing.T, m machine) {
	m.run(t, `sed -i -e 's/"127.0.0.1:2004/":2004/' -e 's/squash: root_squash/squash: none/' -e '1i # edited' /etc/rdmad/rdmad.yaml
systemctl reload rdmad
until ss -ltn 2>/dev/null | grep -q "\*:20049" || grep -qi ":4E51 .* 0A " /proc/net/tcp6; do sleep 0.2; done`)
	m.g.MustRun(t, machineTime, "set -e; "+shellNot+`mkdir /mnt/deb
mount -t nfs -o vers=3,proto=rdma,port=20049,mountport=20048,mountproto=tcp,nolock 10.0.2.15:/ /mnt/deb
grep -q 'proto=rdma' /proc/mounts
dd if=/dev/urandom of=/mnt/deb/data bs=64k count=32 2>/dev/null
chown 1000:1000 /mnt/deb/data
sha256sum </mnt/deb/data >/data.sum`)
	m.expect(t, "stat -c '%u %g %s' /srv/rdmad/data", "1000 1000 2097152")
}

// debHardened does what clients may do in spite of the sandbox, and finds it
// in force.
func debHardened(t *testing.T, m machine) {
	m.g.MustRun(t, machineTime, "set -e; "+shellNot+`cd /mnt/deb
mkdir own; chown 1000:1000 own; chmod 2770 own; mkfifo own/pipe; ln -s x own/link; touch own/s; chmod 4755 own/s
[ "$(stat -c %a own/s)" = 4755 ]
not mknod own/null c 1 3
echo 3 >/proc/sys/vm/drop_caches
[ "$(sha256sum <data)" = "$(cat /data.sum)" ]`)
	// What docs/packaging.md says of it, times 10.
	m.run(t, "systemd-analyze security --no-pager --threshold=29 rdmad")
	m.run(t, `pid=$(systemctl show -P MainPID rdmad)
grep -qx 'Seccomp:	2' /proc/$pid/status
grep -qx 'NoNewPrivs:	1' /proc/$pid/status
grep -qx 'CapBnd:	00000000000000df' /proc/$pid/status
not nsenter -t $pid -m touch /etc/written /usr/written
nsenter -t $pid -m touch /srv/written /var/lib/rdmad/written
rm /srv/written /var/lib/rdmad/written`)
}

// debRestart restarts rdmad, and ends it as by a crash. Clients continue, and
// the control socket exists all the time.
func debRestart(t *testing.T, m machine) {
	m.run(t, `inode=$(stat -c %i /run/rdmad/control.sock)
systemctl restart rdmad
[ "$(stat -c %i /run/rdmad/control.sock)" = $inode ]
kill -9 $(systemctl show -P MainPID rdmad)
until [ "$(systemctl show -P NRestarts -P ActiveState rdmad | tr '\n' ' ')" = "1 active " ]; do sleep 0.2; done
[ "$(stat -c %i /run/rdmad/control.sock)" = $inode ]`)
	m.expect(t, ctl+"settings get credits.max", "32")
	debIntact(t, m)
}

// debHang stops the process, so that it no longer pings. The watchdog replaces
// it.
func debHang(t *testing.T, m machine) {
	m.run(t, `systemctl reset-failed rdmad # all these starts would be too many
mkdir -p /run/systemd/system/rdmad.service.d
printf '[Service]\nWatchdogSec=12\nTimeoutAbortSec=2\n' >/run/systemd/system/rdmad.service.d/test.conf
systemctl daemon-reload
systemctl restart rdmad
pid=$(systemctl show -P MainPID rdmad)
kill -STOP $pid
until [ "$(systemctl show -P MainPID rdmad)" != $pid ] && [ "$(systemctl show -P ActiveState rdmad)" = active ]; do sleep 0.2; done
rm -r /run/systemd/system/rdmad.service.d
systemctl daemon-reload
systemctl restart rdmad`)
	m.expect(t, journal, "Watchdog timeout")
}

// debIntact makes the client read again what it wrote in the beginning.
func debIntact(t *testing.T, m machine) {
	t.Helper()
	m.g.MustRun(t, machineTime, "set -e; "+shellNot+`echo 3 >/proc/sys/vm/drop_caches
[ "$(sha256sum </mnt/deb/data)" = "$(cat /data.sum)" ]`)
}

// debRdmacore installs the build for adapters, which takes the other's place, and has
// it serve the mount on the kernel's siw from within the sandbox. A wildcard address
// of siw's takes no connections from the machine itself.
func debRdmacore(t *testing.T, m machine) {
	m.run(t, `systemctl reset-failed rdmad
dpkg -i /host/rdmad-rdmacore_1.0.0-1_amd64.deb </dev/null
update-alternatives --query rdmad | grep -x "Value: /usr/lib/rdmad/rdmad-rdmacore"
sed -i -e 's/provider: softiwarp /provider: rdmacore /' -e 's/":20049"/"10.0.2.15:20049"/' /etc/rdmad/rdmad.yaml
rdmad check --config /etc/rdmad/rdmad.yaml
systemctl restart rdmad`)
	debIntact(t, m)
	debOnAdapter(t, m)
}

// listed waits until rdmad lists a connection of a provider's.
func listed(provider string) string {
	return "until " + ctl + `connections list -o json >/tmp/connections && grep -F '"` + provider + `"' /tmp/connections; do sleep 0.2; done`
}

// debOnAdapter finds the mount's connection, and the adapter's file open.
func debOnAdapter(t *testing.T, m machine) {
	t.Helper()
	m.run(t, listed("rdmacore"))
	m.run(t, "ls -l /proc/$(systemctl show -P MainPID rdmad)/fd | grep -F /dev/infiniband/uverbs0")
}

// debUpgrade checks that an upgrade keeps the edited configuration, settings
// and mounts.
func debUpgrade(t *testing.T, m machine) {
	m.run(t, `systemctl reset-failed rdmad
dpkg -i /host/rdmad*_2.0.0-1_amd64.deb </dev/null
head -n1 /etc/rdmad/rdmad.yaml | grep -x '# edited'
systemctl is-active rdmad.service`)
	m.expect(t, ctl+"status", "v2.0.0")
	m.expect(t, ctl+"settings get credits.max", "32")
	debIntact(t, m)
}

// debRemoveRdmacore gives the mount, which the upgrade left on the adapter, back to
// rdmad's own build, as soon as the configuration has no more of the provider that is
// gone.
func debRemoveRdmacore(t *testing.T, m machine) {
	debOnAdapter(t, m)
	m.run(t, `systemctl reset-failed rdmad
sed -i -e 's/provider: rdmacore /provider: softiwarp /' /etc/rdmad/rdmad.yaml
dpkg -r rdmad-rdmacore
systemctl is-active rdmad.service
update-alternatives --query rdmad | grep -x "Value: /usr/lib/rdmad/rdmad"
dpkg -P rdmad-rdmacore
[ ! -e /usr/lib/rdmad/rdmad-rdmacore ]`)
	debIntact(t, m)
	m.run(t, listed("softiwarp"))
}

func debRemove(t *testing.T, m machine) {
	m.g.MustRun(t, machineTime, "umount /mnt/deb")
	m.run(t, `dpkg -r rdmad
not systemctl is-active rdmad.service rdmad.socket
[ ! -e /usr/sbin/rdmad ] && [ ! -e /run/rdmad/control.sock ]
head -n1 /etc/rdmad/rdmad.yaml | grep -x "# edited"
[ -e /var/lib/rdmad/settings.db ]`)
}

// debPurge checks that purging keeps the exported files.
func debPurge(t *testing.T, m machine) {
	m.run(t, `dpkg -P rdmad
[ ! -e /etc/rdmad ] && [ ! -e /var/lib/rdmad ] && [ ! -e /etc/systemd/system/multi-user.target.wants/rdmad.service ]
[ -s /srv/rdmad/data ]
[ -z "$(systemctl list-units --failed --plain --no-legend 'rdmad*')" ]`)
}

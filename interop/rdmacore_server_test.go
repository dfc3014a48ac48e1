package interop

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// guestServer says where an rdmad in the guest serves /export, and over what.
type guestServer struct {
	name     string // of its program, configuration and log
	provider string
	nfs      int // port over RDMA
	mountd   int // port of MOUNT and NFS over TCP
	control  int
	metrics  string // address; empty for none
	// asyncMetadata is for tests of the provider: that names are synced is
	// part of what a server is compared by.
	asyncMetadata bool
	text          string // of a configuration that has all this
	limits        string // of the process, rdmacoreLimits when empty
}

// onlyServer is the one rdmad of a test that has no others.
var onlyServer = guestServer{name: "rdmad", provider: "rdmacore", nfs: 20049, mountd: 20048, control: 20050, asyncMetadata: true}

func (s guestServer) config() string {
	if s.text != "" {
		return s.text
	}
	return fmt.Sprintf(`control: {listen: "127.0.0.1:%[1]d"}
metrics: {listen: "%[7]s"}
state: {path: /tmp/%[2]s.state}
listeners: [{name: nfs, provider: %[3]s, address: "10.0.2.15:%[4]d", service: export}]
services: [{name: export, nfs: {path: /export, async_metadata: %[5]t, tcp_listen: "10.0.2.15:%[6]d"}}]
`, s.control, s.name, s.provider, s.nfs, s.asyncMetadata, s.mountd, s.metrics)
}

// guestRdmad is an rdmad in the guest.
type guestRdmad struct {
	guestServer
	g       *guest.Guest
	command *guest.Command
}

// buildGuestRdmad makes /tmp/rdmad and /tmp/rdmactl in the guest, with provider
// rdmacore, and
// mounts a tmpfs on /export unless something is mounted there.
func buildGuestRdmad(t testing.TB, g *guest.Guest) {
	t.Helper()
	for _, program := range []string{"rdmad", "rdmactl"} {
		buildRdmacore(t, g.ShareDir, program, "build", "-ldflags", "-s -w", "-tags", "rdmacore", "../cmd/"+program)
	}
	g.MustRun(t, adapterTime, `set -e
mkdir -p /export
grep -q ' /export ' /proc/mounts || mount -t tmpfs -o size=60% tmpfs /export
cp /host/rdmad /host/rdmactl /tmp`)
}

// startGuestRdmad starts an rdmad that buildGuestRdmad has made.
func startGuestRdmad(t testing.TB, g *guest.Guest, s guestServer) *guestRdmad {
	t.Helper()
	if err := os.WriteFile(filepath.Join(g.ShareDir, s.name+".yaml"), []byte(s.config()), 0o644); err != nil {
		t.Fatal(err)
	}
	limits := s.limits
	if limits == "" {
		limits = rdmacoreLimits
	}
	// Those of one before, of the same name, would tell of it.
	g.MustRun(t, adapterTime, fmt.Sprintf("rm -f /tmp/%[1]s.pid /tmp/%[1]s.log", s.name))
	command, err := g.Start(limits + fmt.Sprintf(
		"echo $$ >/tmp/%[1]s.pid; exec /tmp/rdmad --config /host/%[1]s.yaml --log-format json >/tmp/%[1]s.log 2>&1", s.name))
	if err != nil {
		t.Fatal(err)
	}
	r := &guestRdmad{guestServer: s, g: g, command: command}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s:\n%s", s.name, g.MustRun(t, adapterTime, "tail -n 100 /tmp/"+s.name+".log"))
		}
	})
	g.MustRun(t, adapterTime, fmt.Sprintf(`until grep -qs '"msg":"ready"' /tmp/%[1]s.log; do
	sleep 0.2
	[ ! -s /tmp/%[1]s.pid ] || kill -0 $(cat /tmp/%[1]s.pid) || { cat /tmp/%[1]s.log >&2; exit 1; }
done`, s.name))
	return r
}

// stop stops rdmad and checks that it ends in order.
func (r *guestRdmad) stop(t testing.TB) {
	t.Helper()
	r.g.MustRun(t, adapterTime, fmt.Sprintf("kill -TERM $(cat /tmp/%s.pid)", r.name))
	if got := ended(t, r.command); got.Code != 0 {
		t.Errorf("%s, told to stop: code %d", r.name, got.Code)
	}
}

func (r *guestRdmad) mountArgs(via transport) (source, options string) {
	port := r.nfs
	if via == overTCP {
		port = r.mountd
	}
	return "10.0.2.15:/", fmt.Sprintf("vers=3,proto=%s,port=%d,mountport=%d,mountproto=tcp,nolock", via, port, r.mountd)
}

func (r *guestRdmad) shell(t testing.TB, script string) string {
	t.Helper()
	return r.g.MustRun(t, serverTime, "set -e; cd /export; "+script)
}

// ctl runs rdmactl, which buildGuestRdmad has made, in the guest.
func (r *guestRdmad) ctl(t testing.TB, v any, args ...string) {
	t.Helper()
	out := r.g.MustRun(t, adapterTime, fmt.Sprintf("/tmp/rdmactl --addr 127.0.0.1:%d --timeout 60s -o json %s", r.control, strings.Join(args, " ")))
	if err := json.Unmarshal([]byte(out), v); err != nil {
		t.Fatalf("rdmactl %s: %v in\n%s", strings.Join(args, " "), err, out)
	}
}

func (r *guestRdmad) share() string { return "/host" }

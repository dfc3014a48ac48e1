package interop

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

var rdmacoreWhole = flag.Bool("rdmacore.whole", false, "the whole matrix on provider rdmacore")

// rdmacoreParts are those parts of the matrix that stress the provider; the
// service itself is TestNFS's.
var rdmacoreParts = []part{
	{"sizes", testSizes},
	{"attributes", testAttributes},
	{"direct", testDirect},
	{"fio 4k", testFio4K},
	{"remount", testRemount},
}

// TestRdmacoreNFS lets the kernel's NFSv3 client work on an rdmad in its own
// guest, over provider rdmacore and the kernel's software adapters.
func TestRdmacoreNFS(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			r := startGuestRdmad(t, g, a)
			parts := rdmacoreParts
			if *rdmacoreWhole {
				parts = matrix
			}
			t.Run("matrix", func(t *testing.T) { newMount(t, g, r, overRDMA).do(t, "", parts) })
			r.stop(t)
			nothingLeft(t, g)
		})
	}
}

// guestRdmad is an rdmad in the guest, with its export on tmpfs.
type guestRdmad struct {
	g       *guest.Guest
	command *guest.Command
}

const guestRdmadConfig = `control: {listen: "127.0.0.1:20050"}
metrics: {listen: ""}
state: {path: /tmp/rdmad.state}
listeners: [{name: nfs, provider: rdmacore, address: "10.0.2.15:20049", service: export}]
services: [{name: export, nfs: {path: /export, async_metadata: true, tcp_listen: "10.0.2.15:20048"}}]
`

func startGuestRdmad(t *testing.T, g *guest.Guest, a adapter) *guestRdmad {
	t.Helper()
	buildRdmacore(t, g.ShareDir, "rdmad", "build", "-tags", "rdmacore", "../cmd/rdmad")
	if err := os.WriteFile(filepath.Join(g.ShareDir, "rdmad.yaml"), []byte(guestRdmadConfig), 0o644); err != nil {
		t.Fatal(err)
	}
	g.MustRun(t, adapterTime, "mkdir -p /export && mount -t tmpfs -o size=60% tmpfs /export && cp /host/rdmad /tmp/rdmad")
	command, err := g.Start(rdmacoreLimits + "exec /tmp/rdmad --config /host/rdmad.yaml --log-format json >/tmp/rdmad.log 2>&1")
	if err != nil {
		t.Fatal(err)
	}
	r := &guestRdmad{g: g, command: command}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("rdmad on %s:\n%s", a.name, g.MustRun(t, adapterTime, "tail -n 100 /tmp/rdmad.log"))
		}
	})
	g.MustRun(t, adapterTime, `until grep -q '"msg":"ready"' /tmp/rdmad.log; do kill -0 $(pidof rdmad) || { cat /tmp/rdmad.log >&2; exit 1; }; sleep 0.2; done`)
	return r
}

// stop asks rdmad to end and checks that it does so in order.
func (r *guestRdmad) stop(t *testing.T) {
	t.Helper()
	r.g.MustRun(t, adapterTime, "kill -TERM $(pidof rdmad)")
	select {
	case <-r.command.Done():
	case <-time.After(adapterTime):
		r.command.Kill()
	}
	if got, err := r.command.Wait(t.Context()); err != nil || got.Code != 0 {
		t.Errorf("rdmad, told to stop: code %d, error %v", got.Code, err)
	}
}

func (r *guestRdmad) mountArgs(transport) (source, options string) {
	return "10.0.2.15:/", fmt.Sprintf("vers=3,proto=%s,port=20049,mountport=20048,mountproto=tcp,nolock", overRDMA)
}

func (r *guestRdmad) shell(t testing.TB, script string) string {
	t.Helper()
	return r.g.MustRun(t, serverTime, "set -e; cd /export; "+script)
}

func (r *guestRdmad) share() string { return "/host" }

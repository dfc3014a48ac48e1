package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

// rdmacoreDeviceTests are provider rdmacore's own tests that need a device, but
// for the conformance suite.
const rdmacoreDeviceTests = "^Test(Advice|Config|Tuning|IPv6|Nudge|FirstMessages|FlushedBind|NoAllocations|BusyPollSleeps|PortDown|AddressGone|DeviceRemoved|FailedBeforeConnection|DeviceRenamed|EndWhileDown|Deaf|KeepAlive|PortTrouble)"

// TestRdmacoreOutage takes devices, ports and addresses away from provider
// rdmacore and gives them back, in the provider's own tests and, on siw, with an
// rdmad that a client writes to.
func TestRdmacoreOutage(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			testRdmacoreDevices(t, g, a)
			if a.name != "siw0" { // of rxe's connections docs/rdmacore.md has more
				return
			}
			testRdmadOutage(t, g, a)
			nothingLeft(t, g)
			missingLibrary(t, g)
		})
	}
}

func testRdmacoreDevices(t *testing.T, g *guest.Guest, a adapter) {
	buildRdmacore(t, g.ShareDir, "rdmacore.test", "test", "-c", "-tags", "rdmacore,rdmadevice", "../verbs/rdmacore")
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	got, err := g.Run(ctx, rdmacoreLimits+fmt.Sprintf(`cp /host/rdmacore.test /tmp && cd /tmp &&
for tests in '%s' '^TestMissing$'; do
	./rdmacore.test -test.v -test.timeout 2m -test.run "$tests" -rdmacore.device %s -rdmacore.address 10.0.2.15 || exit 1
done`, rdmacoreDeviceTests, a.name))
	if err != nil || got.Code != 0 || strings.Count(got.Stdout, "\n--- PASS") < 10 {
		t.Fatalf("code %d, error %v\n%s\n%s", got.Code, err, got.Stdout, got.Stderr)
	}
	nothingLeft(t, g)
}

// outageScript is at hand for what runs in the guest against its own rdmad.
const outageScript = `set -e
# listener WORD waits until the listener is in a state.
listener() {
	until /tmp/rdmactl --timeout 60s listeners list | grep '^nfs ' >/tmp/listener && grep -q " $1 " /tmp/listener; do sleep 0.2; done
	cat /tmp/listener
}
# works says that the mount does, with data that the server's file has, too.
works() {
	head -c 300000 /dev/urandom >/tmp/data
	cp /tmp/data /mnt/after-$1
	sync /mnt/after-$1
	cmp /tmp/data /export/after-$1
}
`

// testRdmadOutage: rdmad says that nobody reaches its listener, and why, and a
// client under way goes on once everything is back.
func testRdmadOutage(t *testing.T, g *guest.Guest, a adapter) {
	buildGuestRdmad(t, g)
	r := startGuestRdmad(t, g, onlyServer)
	source, options := r.mountArgs(overRDMA)
	expect := func(what, script, want string) {
		t.Helper()
		if got := g.MustRun(t, adapterTime, outageScript+script); !strings.Contains(got, want) {
			t.Errorf("%s: %q does not say %q", what, got, want)
		}
	}
	expect("status", "/tmp/rdmactl --timeout 60s status", "device             "+a.name+" ")
	expect("version", "/tmp/rdmad version", "device "+a.name+": ")
	g.MustRun(t, adapterTime, fmt.Sprintf("mkdir -p /mnt && mount.nfs %s /mnt -o %s,timeo=50,retrans=2", source, options))
	writer, err := g.Start("i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo $i >/mnt/load.$((i%10)) && sync /mnt/load.$((i%10)); done")
	if err != nil {
		t.Fatal(err)
	}
	expect("at first", "listener up", "")
	expect("port", "ip link set eth0 down; listener degraded", "port 1 of "+a.name+" is DOWN")
	expect("port again", "ip link set eth0 up; listener up; works port", "")
	removal := "rdma link del " + a.name + " & listener degraded; wait $!"
	expect("device", removal, "device removed")
	adding := fmt.Sprintf("rdma link add %s type %s netdev eth0; listener up; works device", a.name, strings.TrimSuffix(a.name, "0"))
	expect("device again", adding, "")
	g.MustRun(t, adapterTime, "touch /tmp/enough")
	if got, err := writer.Wait(t.Context()); err != nil || got.Code != 0 {
		t.Errorf("the writer: code %d, %v\n%s", got.Code, err, got.Stderr)
	}
	expect("log", "umount /mnt; grep -c 'listener healthy again' /tmp/rdmad.log", "2")
	r.stop(t)
}

// missingLibrary checks what the loader says on a machine without librdmacm.
func missingLibrary(t *testing.T, g *guest.Guest) {
	t.Helper()
	got, err := g.Run(t.Context(), "find / -xdev -name 'librdmacm.so.1' -exec mv {} /tmp ';'; /tmp/rdmad version")
	const want = "error while loading shared libraries: librdmacm.so.1"
	if err != nil || got.Code == 0 || !strings.Contains(got.Stderr, want) || strings.Count(strings.TrimSpace(got.Stderr), "\n") > 0 {
		t.Errorf("without librdmacm: code %d, %v, %q", got.Code, err, got.Stderr)
	}
}

package interop

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// rdmacoreDeviceTests are provider rdmacore's own tests that need a device, but
// for the conformance suite.
const rdmacoreDeviceTests = "^Test(Advice|Config|Tuning|IPv6|Nudge|FirstMessages|FlushedBind|LibraryWithoutWindows|NoAllocations|CompletionsDuringAPost|BusyPollSleeps|PortDown|AddressGone|DeviceRemoved|FailedBeforeConnection|FailedWhileCreated|SilentHost|LateCall|DeviceRenamed|AddressMoved|EndWhileDown|Deaf|KeepAlive|PortTrouble|ListensTCP|SocketClosed|Signals|ManyPeersAtOnce)"

// TestRdmacoreOutage takes devices, ports and addresses away from provider
// rdmacore and gives them back, in the provider's own tests and with an rdmad that a
// client writes to, which is killed as well (on siw with -long only).
func TestRdmacoreOutage(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			testRdmacoreDevices(t, g, a)
			buildGuestRdmad(t, g)
			testRdmadOutage(t, g, a)
			nothingLeft(t, g)
			if a.kind() != "siw" || *longFlag { // to rdmad, the end of its peers is the same on all
				testRdmadKilled(t, g, a)
				nothingLeft(t, g)
			}
			if a.name == "siw0" {
				missingLibrary(t, g)
			}
		})
	}
}

func testRdmacoreDevices(t *testing.T, g *guest.Guest, a adapter) {
	buildRdmacore(t, g.ShareDir, "rdmacore.test", "test", "-c", "-tags", "rdmacore,rdmadevice", "../verbs/rdmacore")
	got, err := g.RunTalking(t.Context(), deviceTestTime, rdmacoreLimits+fmt.Sprintf(`cp /host/rdmacore.test /tmp && cd /tmp &&
for tests in '%s' '^TestMissing$'; do
	./rdmacore.test -test.v -test.timeout 14m -test.run "$tests" -rdmacore.device %s -rdmacore.address 10.0.2.15 || exit 1
done`, rdmacoreDeviceTests, a.name))
	if err != nil || got.Code != 0 || strings.Count(got.Stdout, "\n--- PASS") < 10 {
		t.Fatalf("code %d, error %v\n%s\n%s", got.Code, err, got.Stdout, got.Stderr)
	}
	nothingLeft(t, g)
}

// outageScript is at hand for what runs in the guest against its own rdmad.
const outageScript = `set -e
# listener WORD REASON waits until the listener is in a state, for a reason if one
# is given: of a device that goes the port goes first.
listener() {
	until /tmp/rdmactl --timeout 60s listeners list | grep '^nfs ' >/tmp/listener &&
		grep -q " $1 " /tmp/listener && grep -qF "$2" /tmp/listener; do sleep 0.2; done
	cat /tmp/listener
}
# works says that the mount does, with data that the server's file has, too.
works() {
	head -c 300000 /dev/urandom >/tmp/data
	cp /tmp/data /mnt/after-$1
	sync /mnt/after-$1
	cmp /tmp/data /export/after-$1
}
# condition DEVICE STATUS REASON waits until the device's condition is that. The metrics and,
# while it is not OK, /healthz must show it, too.
condition() {
	until { /tmp/rdmactl --timeout 60s conditions || true; } >/tmp/conditions && grep -Eq "^$2 +device +$1 .* $3( |$)" /tmp/conditions; do sleep 0.2; done
	wget -qO- http://127.0.0.1:20051/metrics | grep -F "rdmad_condition{kind=\"device\",name=\"$1\",status=\"$2\"} 1"
	case $2 in
	DEGRADED) wget -qO- http://127.0.0.1:20051/healthz | grep -F "device/$1 $2 $3" ;;
	FAILED) ! wget -qO- http://127.0.0.1:20051/healthz || exit 1 ;;
	esac
}
`

// outageMount is what the client is mounted with: it doesn't wait long.
const outageMount = "mkdir -p /mnt && mount.nfs %s /mnt -o %s,timeo=50,retrans=2"

// outages runs the steps of a test in the guest. Each step must print something
// expected.
type outages struct {
	*testing.T
	g *guest.Guest
}

func (o outages) expect(what, script, want string) {
	o.Helper()
	if got := o.g.MustRun(o.T, adapterTime, outageScript+script); !strings.Contains(got, want) {
		o.Errorf("%s: %q does not say %q", what, got, want)
	}
}

// testRdmadOutage checks that rdmad reports that no peer reaches its listener,
// and why, and what is wrong with the device. A client must continue once everything
// is back.
func testRdmadOutage(t *testing.T, g *guest.Guest, a adapter) {
	server := onlyServer
	server.metrics = "127.0.0.1:20051"
	r, o := startGuestRdmad(t, g, server), outages{t, g}
	source, options := r.mountArgs(overRDMA)
	o.expect("status", "/tmp/rdmactl --timeout 60s status", "device             "+a.name+" ")
	o.expect("version", "/tmp/rdmad version", "device "+a.name+": ")
	condition := func(status, reason string) string { return "condition " + a.name + " " + status + " " + reason }
	active := condition("OK", "Active")
	// Without a client: one would lose its connection until a condition shows the port.
	o.expect("port without client", "ip link set eth0 down; "+condition("DEGRADED", "NoActivePort")+"; ip link set eth0 up; "+active, "")
	g.MustRun(t, adapterTime, fmt.Sprintf(outageMount, source, options))
	o.expect("at first", "listener up", "")
	siw := a.name == "siw0"
	down := "port 1 of " + a.name + " is DOWN"
	portDown, portUp := "ip link set eth0 down; listener degraded '"+down+"'", "ip link set eth0 up; listener up; works port"
	if !siw { // with a client that rests: what becomes of another see below
		o.expect("port", "works first; "+portDown, down)
		o.expect("port again", portUp+"; grep -c 'connection up' /tmp/rdmad.log", "\n1\n")
	}
	writer, err := g.Start("i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo $i >/mnt/load.$((i%10)) && sync /mnt/load.$((i%10)); done")
	if err != nil {
		t.Fatal(err)
	}
	if siw {
		o.expect("port", portDown, down)
		o.expect("port again", portUp, "")
	}
	o.expect("device", "rdma link del "+a.name+" & listener degraded 'device removed'; wait $!; "+condition("FAILED", "Missing"), "device removed")
	o.expect("device again", a.add(a.name, "eth0")+"; listener up; works device; "+active, "")
	g.MustRun(t, adapterTime, "touch /tmp/enough")
	finish(t, writer)
	o.expect("log", "until [ $(grep -c 'listener healthy again' /tmp/rdmad.log) -ge 2 ]; do sleep 0.2; done", "")
	if !siw {
		testRdmadDeaf(o, a)
	}
	o.expect("the end", "umount /mnt; rm /tmp/enough", "")
	r.stop(t)
}

// testRdmadDeaf lets the client's kernel end its connection while the port is
// down. After that rxe hears no connection requests. rdmad must report it, and
// the client must continue once the device has been replaced.
func testRdmadDeaf(o outages, a adapter) {
	o.g.MustRun(o.T, adapterTime, "ip link set eth0 down")
	call, err := o.g.Start("touch /mnt/late")
	if err != nil {
		o.Fatal(err)
	}
	o.expect("call in vain", `while rdma resource show qp | grep -q ' state RTS .*\[rdma_cm\]'; do sleep 0.1; done
ip link set eth0 up
until grep ' hears no ' /tmp/rdmad.log; do sleep 0.2; done
listener degraded 'hears no connection requests'`, a.name+" hears no connection requests")
	o.expect("hearing again", "rdma link del "+a.name+"; "+a.add(a.name, "eth0")+"; listener up; works again", "")
	// The client's kernel may fail a call that waits for a connection on a device
	// that is removed.
	ctx, cancel := limit(o, clientTime)
	defer cancel()
	if got, err := call.Wait(ctx); err != nil || got.Code != 0 && !strings.Contains(got.Stderr, "No such device") {
		o.Errorf("the call: code %d, %v\n%s", got.Code, err, got.Stderr)
	}
}

// testRdmadKilled kills rdmad. The kernel must free all its resources, the next
// rdmad must be reachable at once, and a client must continue with nothing
// lost.
func testRdmadKilled(t *testing.T, g *guest.Guest, _ adapter) {
	r := startGuestRdmad(t, g, onlyServer)
	m := newMount(t, g, r, overRDMA)
	testCrash(t, m.work(t, "killed"), func(t *testing.T) {
		g.MustRun(t, adapterTime, "kill -9 $(cat /tmp/rdmad.pid)")
		ended(t, r.command)
		nothingLeft(t, g)
		r.command = startGuestRdmad(t, g, onlyServer).command
	})
	m.detach(t)
	r.stop(t)
}

// missingLibrary checks the loader's error on a machine without librdmacm.
func missingLibrary(t *testing.T, g *guest.Guest) {
	t.Helper()
	got, err := g.Run(t.Context(), "find / -xdev -name 'librdmacm.so.1' -exec mv {} /tmp ';'; /tmp/rdmad version")
	const want = "error while loading shared libraries: librdmacm.so.1"
	if err != nil || got.Code == 0 || !strings.Contains(got.Stderr, want) || strings.Count(strings.TrimSpace(got.Stderr), "\n") > 0 {
		t.Errorf("without librdmacm: code %d, %v, %q", got.Code, err, got.Stderr)
	}
}

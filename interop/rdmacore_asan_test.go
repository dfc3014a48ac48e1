package interop

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
)

// sanitized are those tests of the conformance suite that call all of the shim,
// each way of ending among them: the address sanitizer makes an emulated guest
// slower still.
var sanitized = deviceTests{
	pkg: "../verbs/rdmacore", flags: "-rdmacore.connections 4", least: 25, asan: true,
	runs: []string{"^TestConformance$/^(SendOrder|SigAll|QueueFull|ScatterGather|FlushOnFail|FlushOnPeerClose|PostInError|Reads|" +
		"Window|Rebind|WindowOutlivesQP|SendInvalidate|RevokedByPeer|PrivateData|Reject|ConnectTimeout|ConnectCancel|RequestClosed|" +
		"Unreachable|ListenerClose|Disconnect|DisconnectDrains|CloseOrder|BadObjects|CQWait|CQClose|CQOverflow|ManyConnections)$|^TestThread|^TestFailedBefore"},
}

// TestRdmacoreSanitized runs the shim under the address sanitizer, with C memory
// that nobody frees as a failure: on rxe, which has windows as well, and with
// -rdmacore.whole on siw too.
func TestRdmacoreSanitized(t *testing.T) {
	on := adapters[1:]
	if *rdmacoreWhole {
		on = adapters
	}
	for _, a := range on {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			sanitized.run(t, g, a)
			nothingLeft(t, g)
		})
	}
}

// copySanitizer gives the guest the sanitizer's library.
func copySanitizer(t *testing.T, g *guest.Guest) {
	t.Helper()
	out, err := exec.Command("gcc", "-print-file-name=libasan.so").Output()
	if err != nil {
		t.Fatalf("gcc: %v", err)
	}
	library, err := filepath.EvalSymlinks(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(library)
	if err != nil {
		t.Fatal(err)
	}
	// The name that programs ask for has one number: libasan.so.8.
	name, version, _ := strings.Cut(filepath.Base(library), ".so.")
	major, _, _ := strings.Cut(version, ".")
	if err := os.WriteFile(filepath.Join(g.ShareDir, name+".so."+major), text, 0o755); err != nil {
		t.Fatal(err)
	}
}

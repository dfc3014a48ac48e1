package interop

import (
	"encoding/json"
	"errors"
	"fmt"
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
// that nobody frees as a failure, on rxe, which has windows as well. With -long it is run on
// siw too, and the shim gets faults, to see that they are found.
func TestRdmacoreSanitized(t *testing.T) {
	on := adapters[1:]
	if *longFlag {
		on = adapters
	}
	for _, a := range on {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			t.Run("clean", func(t *testing.T) {
				sanitized.run(t, g, a)
				nothingLeft(t, g)
			})
			if *longFlag {
				t.Run("planted", func(t *testing.T) { testPlanted(t, g, a) })
			}
		})
	}
}

// faulty is code that is added to a copy of the shim and called where devices
// are released.
const faulty = `
static void *volatile lost;

static void fault(const char *what)
{
	static int calls;

	if (calls++)
		return;
	lost = malloc(4321);
	if (what && !strcmp(what, "leak"))
		lost = NULL;
	free(lost);
	if (what && !strcmp(what, "use after free"))
		*(volatile char *)lost = 1;
}
`

// testPlanted plants faults in the shim. The sanitizer must find each.
func testPlanted(t *testing.T, g *guest.Guest, a adapter) {
	planted := sanitized
	planted.overlay = plant(t, "../verbs/rdmacore/shim_cm.c")
	planted.build(t, g)
	for _, c := range []struct{ fault, want string }{
		{"leak", "ERROR: LeakSanitizer: detected memory leaks\n\nDirect leak of 4321 byte(s) in 1 object(s)"},
		{"use after free", "ERROR: AddressSanitizer: heap-use-after-free"},
	} {
		got, err := g.Run(t.Context(), fmt.Sprintf("export FAULT='%s'; %s", c.fault, planted.command("^TestConformance$/^BadObjects$", a)))
		if err != nil || got.Code == 0 || !strings.Contains(got.Stderr, c.want) {
			t.Errorf("with fault %q: code %d, error %v\n%s\n%s", c.fault, got.Code, err, got.Stdout, got.Stderr)
		}
	}
}

// plant makes an overlay for the go command, with which one of the shim's files is
// at fault when FAULT in the environment says so.
func plant(t *testing.T, file string) string {
	t.Helper()
	file, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begins, calls = "\nstatic int result(", "\trdma_free_devices(copy);"
	changed := strings.Replace(string(text), begins, faulty+begins, 1)
	changed = strings.Replace(changed, calls, "\tfault(getenv(\"FAULT\"));\n"+calls, 1)
	if len(changed) <= len(text)+len(faulty) {
		t.Fatalf("%s has changed: no place for the faults", file)
	}
	dir := t.TempDir()
	overlay, faultyFile := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "faulty.c")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {file: faultyFile}})
	if err := errors.Join(err, os.WriteFile(faultyFile, []byte(changed), 0o644), os.WriteFile(overlay, replace, 0o644)); err != nil {
		t.Fatal(err)
	}
	return overlay
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

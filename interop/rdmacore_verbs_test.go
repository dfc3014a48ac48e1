package interop

import (
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

// deviceTestTime bounds one test on one emulated adapter: with -test.v its end is
// printed.
const deviceTestTime = 5 * time.Minute

// deviceTests are tests of a package with the tag rdmadevice: they run in the
// guest, on an adapter.
type deviceTests struct {
	pkg     string
	flags   string
	runs    []string // arguments of -test.run, one after the other
	least   int      // tests that must pass, so that none is left out unseen
	asan    bool     // built with the address sanitizer
	overlay string   // file of the go command's -overlay, if any
}

// conformance is the conformance suite of the verbs.
var conformance = deviceTests{
	pkg: "../verbs/rdmacore", flags: "-rapid.checks 20 -rdmacore.connections 32", least: 60,
	runs: []string{"^TestConformance$|^TestThread", "^TestConformanceBusyPoll$/^(SendOrder|CQ.*|Disconnect|ConcurrentPosts)$",
		"^TestConformanceSinks$/^(BadSends|Reads.*|Fence)$"},
}

// rpcTests are the end-to-end tests of RPC-over-RDMA that run over every provider.
const rpcTests = `
BackchannelWaits CancelAnywhere ConfiguredProviders ConfiguredRaises ConfiguredReads PeersPrivateData
InvalidationConditions WireAnswers KernelShapes ManySegments HostileSegments Lies StrayReplies ManyInFlight
SettingsUnderLoad CancelInline CancelExposed DrainUnderLoad Close AlignedWrites PaddingUnderLoad
HostilePadding ReadReplies ReadRepliesConcurrently ReadRepliesOneSided ReadRepliesToggled HostileDones
LyingReadLists ReadReplyCancel ReadReplyMemory CallsAreSentAgain LossesUnderLoad BothDirections CallsWithinCalls
ReverseInlineOnly ReverseCanceled ReverseLost ReverseDrain ReverseLive ReverseFromLiar SameXIDBothWays
ReverseOverrun ReverseOff ReverseInvalidates ReverseLies Reject MessageShapes ServiceErrors SeveralItems
StatsOfShapes TapSeesEverything Version2 Version2OnTheWire Whole XIDInUse`

// rpcFaults are the tests that the adapters of Linux 6.1 fail.
var rpcFaults = map[string]map[string]string{
	"siw0": {
		"ManySegments":    "of up to 32 bytes that cross a page, a peer reads others (siw_try_1seg)",
		"HostileSegments": "that the peer has ended a connection by a Terminate is not told",
		"CancelExposed":   "the same",
		"ReverseDrain":    "a Send that the peer's orderly end overtakes is called a local failure",
	},
	"rxe0": {
		"PeersPrivateData": "private data comes padded with zeros, so that none is a byte short",
	},
}

// rpcSuite returns the rpcTests without those that the adapter fails.
func rpcSuite(a adapter) deviceTests {
	var names []string
	for _, name := range strings.Fields(rpcTests) {
		if rpcFaults[a.name][name] == "" {
			names = append(names, name)
		}
	}
	// Of every pair of speakers the default has the one that speaks all.
	pairs := "^TestInteroperation$/^all_to_all$"
	if *longFlag {
		pairs = "^TestInteroperation$"
	}
	return deviceTests{pkg: "../rpcrdma", runs: []string{"^Test(" + strings.Join(names, "|") + ")$", pairs}, least: 2 * len(names)}
}

// sinkTests are those in which the responder or the requester reads most, for siw to
// play an adapter on which that needs registrations.
const sinkTests = `
KernelShapes ManyInFlight CancelInline DrainUnderLoad Close Lies AlignedWrites ReadReplies ReadRepliesConcurrently
ReadReplyCancel ReadReplyMemory LossesUnderLoad BothDirections Whole`

func rpcSinks(rpc deviceTests) deviceTests {
	names := strings.Fields(sinkTests)
	rpc.flags, rpc.runs, rpc.least = "-rdmacore.sinks", []string{"^Test(" + strings.Join(names, "|") + ")$"}, 2*len(names)
	if *longFlag {
		rpc.runs = rpcSuite(adapters[0]).runs
	}
	return rpc
}

// TestRdmacoreVerbs runs the conformance suite of the verbs, and RPC-over-RDMA from
// end to end, on provider rdmacore and the kernel's software adapters. On siw, all of the
// latter need -long.
func TestRdmacoreVerbs(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			rpc := rpcSuite(a)
			suites := []deviceTests{conformance, rpc}
			if a.kind() == "siw" && !*longFlag {
				suites = suites[:1]
			}
			for _, tests := range suites {
				t.Run(path.Base(tests.pkg), func(t *testing.T) { tests.run(t, g, a) })
				nothingLeft(t, g)
			}
			if a.kind() == "siw" {
				t.Run("sinks", func(t *testing.T) { rpcSinks(rpc).run(t, g, a) })
				nothingLeft(t, g)
			}
		})
	}
}

// run builds the tests and runs them in the guest.
func (d deviceTests) run(t *testing.T, g *guest.Guest, a adapter) {
	t.Helper()
	d.build(t, g)
	d.execute(t, g, a)
}

func (d deviceTests) program() string { return path.Base(d.pkg) + ".test" }

func (d deviceTests) build(t *testing.T, g *guest.Guest) {
	t.Helper()
	args := []string{"test", "-c", "-tags", "rdmacore,rdmadevice", "-ldflags", "-s -w"}
	if d.asan {
		args = append(args, "-asan")
		copySanitizer(t, g)
	}
	if d.overlay != "" {
		args = append(args, "-overlay", d.overlay)
	}
	buildRdmacore(t, g.ShareDir, d.program(), append(args, d.pkg)...)
	g.MustRun(t, adapterTime, "cp /host/"+d.program()+" /tmp")
}

// command returns the command that runs the tests whose names match pattern in
// the guest.
func (d deviceTests) command(pattern string, a adapter) string {
	return rdmacoreLimits + fmt.Sprintf("cd /tmp && LD_LIBRARY_PATH=/host ASAN_OPTIONS=detect_leaks=1 ./%s -test.v -test.timeout 14m -test.run '%s' -rdmacore.device %s -rdmacore.address %s %s",
		d.program(), pattern, a.name, guestAddress, d.flags)
}

// execute may run in a goroutine of the test's.
func (d deviceTests) execute(t *testing.T, g *guest.Guest, a adapter) {
	t.Helper()
	passed := 0
	for _, pattern := range d.runs {
		got, err := g.RunTalking(t.Context(), deviceTestTime, d.command(pattern, a))
		if err != nil || got.Code != 0 {
			t.Errorf("%s: code %d, error %v\n%s\n%s", pattern, got.Code, err, got.Stdout, got.Stderr)
		}
		passed += strings.Count(got.Stdout, "--- PASS")
	}
	t.Logf("%d tests passed", passed)
	if passed < d.least {
		t.Errorf("%d tests passed, which can't be all", passed)
	}
}

package main

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/controlplane/planetest"
)

// checked finds goroutines that the scripts' control planes leave behind.
type checked struct{ m *testing.M }

func (c checked) Run() int {
	code := c.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

func TestMain(m *testing.M) {
	testscript.Main(checked{m}, map[string]func(){"rdmactl": unhurried})
}

// unhurried is rdmactl that waits for answers as long as a busy machine takes, unless the
// script says how long.
func unhurried() {
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "--timeout") }) {
		os.Args = slices.Insert(os.Args, 1, "--timeout="+patience.String())
	}
	main()
}

type worldKey struct{}

// update has scripts rewritten to what they got, where they compare it.
var update = flag.Bool("update", false, "rewrite what scripts compare with")

// patience bounds how long a script waits for what must happen.
const patience = time.Minute

// TestScripts runs testdata/script, each against a control plane of its own
// over a data plane with a listener and two connections. Commands beside
// testscript's:
//
//	connect ID LISTENER PEER [STATE]
//	                            a connection comes up; with calls that don't
//	                            end when STATE is draining
//	disconnect ID REASON        and ends
//	traffic ID                  it looks as if larger messages should go inline
//	stop                        the control plane ends
//	control OPTION…             another one begins, whose address is in
//	                            RDMACTL_ADDR: see control
//	certificates                make what option tls needs: see certificates
//	strip FROM TO               copy a file without times, ports and page tokens
//	status CODE COMMAND…        run a command that exits with CODE
//	serve VAR KIND              an RDMA server, or another; its address is in VAR
//	called VAR N                wait until it has had N calls
//	cut VAR                     end its connections
//	watching N                  wait until so many traces and captures run
//	browse                      begin a session of the console: see browse
//	written FILE REGEXP         wait until a file has what matches
//	observe ID WHAT             a connection does something; see observe
//	cutfile FROM TO N           copy a file without its last N bytes
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		UpdateScripts:       *update,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"connect":    connect,
			"disconnect": disconnect,
			"traffic":    traffic,
			"stop":       stop,
			"control":    control,

			"certificates": certificates,
			"serve":        serve,
			"called":       called,
			"cut":          cut,
			"status":       exitStatus,
			"browse":       browse,
			"watching":     watching,
			"observe":      observe,
			"written":      written,

			"strip":   strip,
			"packets": packets,
			"cutfile": cutFile,
		},
	})
}

func setup(env *testscript.Env) error {
	w, err := newWorld(env.WorkDir, nil)
	if err != nil {
		return err
	}
	env.Defer(func() {
		if err := w.end(); err != nil {
			env.T().Fatal(err)
		}
	})
	env.Setenv("RDMACTL_ADDR", w.control.Addr())
	env.Setenv("TZ", "UTC")
	// A process built with -race stays for a second otherwise.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Values[worldKey{}] = w
	env.Values[serversKey{}] = map[string]*server{}
	return nil
}

func connect(ts *testscript.TestScript, _ bool, args []string) {
	peer := planetest.Peer{}
	switch len(args) {
	case 4:
		peer.State = args[3]
	case 3:
	default:
		ts.Fatalf("usage: connect ID LISTENER PEER [STATE]")
	}
	peer.ID, peer.Listener, peer.Address = args[0], args[1], args[2]
	ts.Value(worldKey{}).(*world).plane.Connect(peer)
}

func disconnect(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: disconnect ID REASON")
	}
	ts.Value(worldKey{}).(*world).plane.Disconnect(args[0], args[1])
}

// exitStatus runs a command and checks its exit code: status CODE COMMAND…
func exitStatus(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	if err != nil {
		ts.Fatalf("status: %v", err)
	}
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		if _, err := fmt.Sscanf(err.Error(), "exit status %d", &got); err != nil {
			ts.Fatalf("%s: %v", args[1], err)
		}
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/rpcrdma"
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
	testscript.Main(checked{m}, map[string]func(){"rdmactl": main})
}

// world is what a script's rdmactl talks to.
type world struct {
	plane   *planetest.Plane
	control *controlplane.Controlplane
}

type worldKey struct{}

// patience bounds how long a script waits for what must happen.
const patience = 10 * time.Second

// TestScripts runs testdata/script, each against a control plane of its own
// over a data plane with a listener and two connections. Commands beside
// testscript's:
//
//	connect ID LISTENER PEER    a connection comes up
//	disconnect ID REASON        and ends
//	stop                        the control plane ends
//	serve VAR KIND              an RDMA server, or another; its address is in VAR
//	called VAR N                wait until it has had N calls
//	cut VAR                     end its connections
//	watching N                  wait until so many traces and captures run
//	observe ID WHAT             a connection does something; see observe
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"connect":    connect,
			"disconnect": disconnect,
			"stop":       stop,
			"serve":      serve,
			"called":     called,
			"cut":        cut,
			"status":     exitStatus,
			"watching":   watching,
			"observe":    observe,

			"cmpstripped": cmpStripped,
			"packets":     packets,
		},
	})
}

func setup(env *testscript.Env) error {
	plane := &planetest.Plane{}
	plane.Listen("nfs", "127.0.0.1:20049")
	plane.Listen("test", "127.0.0.1:20059")
	listen := "127.0.0.1:0"
	if strings.Contains(env.WorkDir, "unix") {
		listen = "unix://" + filepath.Join(env.WorkDir, "control.sock")
	}
	control, err := controlplane.New(context.Background(), controlplane.Config{
		Dataplane: plane, Listen: listen, Version: "v1.2.3",
		Initial: initial(), Configured: []string{"credits.max"},
	})
	if err != nil {
		return err
	}
	plane.Use(control.Resolver())
	plane.Connect(planetest.Peer{
		ID: "1", Listener: "nfs", Address: "192.0.2.7:1001",
		Stats: rpcrdma.Stats{
			Calls: 1200, Replies: 1199, Sends: 1199, SendsWithInvalidate: 800, Receives: 1200, RDMAReads: 40, RDMAWrites: 500,
			BytesReceived: 5_000_000_000, BytesSent: 1 << 40, Errors: 2,
			ReadChunks: 39, WriteChunks: 499, ReplyChunks: 3, OfferedBytes: 1 << 41, PlacedBytes: 1<<40 - 1,
			InFlightSum: 2400, Ignored: 4,
		},
		Sizes: rpcrdma.Sizes{
			Calls:   rpcrdma.SizeCounts{7: 600, 8: 560, 13: 40},
			Replies: rpcrdma.SizeCounts{8: 600, 21: 599},
		},
	})
	plane.Connect(planetest.Peer{ID: "2", Listener: "test", Address: "[2001:db8::8]:1002", NoInvalidation: true})
	served := make(chan error, 1)
	go func() { served <- control.Serve() }()
	env.Defer(func() {
		if err := control.Shutdown(context.Background()); err != nil {
			env.T().Fatal(err)
		}
		if err := <-served; err != nil {
			env.T().Fatal(err)
		}
	})
	env.Setenv("RDMACTL_ADDR", control.Addr())
	env.Setenv("TZ", "UTC")
	// A process built with -race stays for a second otherwise.
	env.Setenv("GORACE", "atexit_sleep_ms=0")
	env.Values[worldKey{}] = &world{plane, control}
	env.Values[serversKey{}] = map[string]*server{}
	return nil
}

func initial() rpcrdma.Settings {
	s := rpcrdma.DefaultSettings()
	s.CreditsMax = 128
	return s
}

func connect(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: connect ID LISTENER PEER")
	}
	ts.Value(worldKey{}).(*world).plane.Connect(planetest.Peer{ID: args[0], Listener: args[1], Address: args[2]})
}

func disconnect(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: disconnect ID REASON")
	}
	ts.Value(worldKey{}).(*world).plane.Disconnect(args[0], args[1])
}

func stop(ts *testscript.TestScript, _ bool, _ []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := ts.Value(worldKey{}).(*world).control.Shutdown(ctx); err != nil {
		ts.Fatalf("stop: %v", err)
	}
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

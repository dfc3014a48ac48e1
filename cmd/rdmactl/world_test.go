package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rdmad/rdmad/controlplane"
	"github.com/rdmad/rdmad/controlplane/auth"
	"github.com/rdmad/rdmad/controlplane/grpcapi"
	"github.com/rdmad/rdmad/controlplane/planetest"
	"github.com/rdmad/rdmad/controlplane/settings"
	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/dataplane/procmem"
	"github.com/rdmad/rdmad/rpcrdma"
	live "github.com/rdmad/rdmad/rpcrdma/settings"
	"github.com/rdmad/rdmad/verbs/inventory"
)

// world is what a script's rdmactl talks to.
type world struct {
	plane   *planetest.Plane
	control *controlplane.Controlplane
	served  chan error
	console chan error // from the server of the console
}

// adapters are a build with provider rdmacore, and two devices.
func adapters() ([]inventory.Provider, func() []inventory.Device) {
	return []inventory.Provider{{Name: "softiwarp", BuiltIn: true}, {Name: "rdmacore", Note: "for RDMA adapters: get it"}}, func() []inventory.Device {
		return []inventory.Device{
			{
				Name: "rxe0", Transport: "RoCE", Provider: "rdmacore",
				Ports: []inventory.Port{{
					Number: 1, State: "DOWN", Rate: "2.5 Gb/sec (1X SDR)", Link: "Ethernet", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.7")},
				}},
				Limits: &inventory.Limits{MemWindowType2B: true, SendInvalidate: true, ReceiverNotReady: true, MaxQP: 1000, MaxCQ: 2000, MaxMR: 3000, MaxMW: 4000, MaxMRSize: 1 << 40},
			},
			{Name: "siw0", Transport: "iWARP", Problem: "may not be opened", Ports: []inventory.Port{{Number: 1, State: "ACTIVE", Rate: "2.5 Gb/sec (1X SDR)", Link: "Ethernet"}}},
		}
	}
}

// newWorld serves a control plane, with options that control explains, over a
// data plane with two listeners and two connections.
func newWorld(dir string, options []string) (*world, error) {
	plane := &planetest.Plane{}
	plane.Listen("nfs", "127.0.0.1:20049")
	plane.Listen("test", "127.0.0.1:20059")
	plane.Connector(connector)
	cfg := controlplane.Config{
		Dataplane: plane, Manager: planetest.NewManager(plane),
		Listen: "127.0.0.1:0", Daemon: grpcapi.Daemon{Version: "v1.2.3"},
		Initial: initial(), Configured: settings.KeySet(0).With(live.CreditsMax), Access: controlplane.Access{Rate: auth.Rate{PerSecond: 1e6, Burst: 1e6}},
	}
	audited, file, assigned := false, false, false
	for _, option := range options {
		switch option {
		case "unix":
			cfg.Listen = "unix://" + filepath.Join(dir, "100%, a b?#%20 control.sock")
		case "tls":
			cfg.Access.TLS = &auth.Files{
				Cert: filepath.Join(dir, "rdmad.pem"), Key: filepath.Join(dir, "rdmad.key"), ClientCA: filepath.Join(dir, "ca.pem"),
			}
			cfg.Access.Rules.Rules = []auth.Rule{{Role: auth.Operator, Certificates: []string{"olga"}}}
		case "viewer":
			role := auth.Viewer
			cfg.Access.Rules.Default = &role
		case "nobody":
			role := auth.None
			cfg.Access.Rules.Default = &role
		case "fleet":
			cfg.Fleet = &fakeFleet{}
		case "assigned":
			assigned = true
		case "audit":
			audited = true
		case "import":
			cfg.Import = fakeImport
		case "busy":
			cfg.Access.Rate = auth.Rate{PerSecond: 0.001, Burst: 1}
		case "slow":
			plane.SetSlowCalls(slow)
		case "console":
			cfg.Console.Listen = "127.0.0.1:0"
		case "file":
			file = true
		case "degraded":
			plane.Degrade("nfs", "port 1 of rxe0 is DOWN")
			cfg.Providers, cfg.Devices = adapters()
			cfg.Memory = usage
		default:
			return nil, errors.New("control has no option " + option)
		}
	}
	c, err := controlplane.New(context.Background(), cfg)
	if err != nil {
		return nil, err
	}
	w := &world{plane: plane, control: c, served: make(chan error, 1), console: make(chan error, 1)}
	served := w.served // control puts another world in w's place
	if audited {
		err = errors.Join(os.Mkdir(filepath.Join(dir, "audit"), 0o700), c.OpenAudit(filepath.Join(dir, "audit")))
	}
	if err == nil && file {
		_, err = c.Settings.Open(filepath.Join(dir, "settings.db"), fileLayer())
	}
	if err == nil && assigned {
		var v settings.FleetValues
		v.Values.Set(live.DDPMinChunk, 1000)
		_, _, err = c.Settings.Assign(settings.FleetLayer{Cluster: 1, Assignment: 1, Scopes: map[settings.Scope]settings.FleetValues{{}: v}}, time.Hour)
	}
	if c.ConsoleAddr() != "" {
		go func() { w.console <- c.ServeConsole() }()
	} else {
		w.console <- nil
	}
	go func() {
		served <- c.Serve()
		close(served)
	}()
	if err != nil {
		return nil, errors.Join(err, w.end())
	}
	plane.Use(c.Settings.Resolve)
	plane.Connect(planetest.Peer{ID: "1", Listener: "nfs", Address: "192.0.2.7:1001", Stats: busy, Sizes: sizes})
	plane.Connect(planetest.Peer{ID: "2", Listener: "test", Address: "[2001:db8::8]:1002", NoInvalidation: true})
	return w, nil
}

func (w *world) end() error {
	err := w.control.Shutdown(context.Background())
	return errors.Join(err, <-w.served, <-w.console)
}

// slow are the slow calls of a plane with option slow.
var slow = dataplane.SlowCalls{Limit: 500 * time.Millisecond, Total: 7, Calls: []dataplane.SlowCall{
	{
		ConnKey: dataplane.ConnKey{ID: "1", Listener: "nfs"}, PeerPort: netip.MustParseAddrPort("192.0.2.7:1001"), Server: "export",
		SlowCall: rpcrdma.SlowCall{
			XID: 4, Program: 100003, Version: 3, Procedure: 7, Arrived: planetest.Born, Took: 1600 * time.Millisecond,
			Receive: 250 * time.Microsecond, Read: 99750 * time.Microsecond, Service: 1300 * time.Millisecond, Post: 50 * time.Millisecond, Completion: 150 * time.Millisecond,
		},
	},
	{
		ConnKey: dataplane.ConnKey{ID: "2", Listener: "test"}, PeerPort: netip.MustParseAddrPort("[2001:db8::8]:1002"),
		SlowCall: rpcrdma.SlowCall{XID: 3, Program: 200000, Version: 1, Procedure: 2, Arrived: planetest.Born, Took: time.Minute, Service: time.Minute, Upstream: 59 * time.Second, Lost: true},
		Server:   "upstream",
	},
	{
		PeerPort: netip.MustParseAddrPort("192.0.2.9:1003"), Server: "export",
		SlowCall: rpcrdma.SlowCall{XID: 2, Program: 100003, Version: 3, Procedure: 6, Arrived: planetest.Born, Took: 2 * time.Second, Service: time.Second, Completion: time.Second},
	},
}}

// connector is the one there is.
var connector = dataplane.ConnectorInfo{
	EndpointInfo: dataplane.EndpointInfo{
		Name: "out", Provider: "softiwarp", Address: netip.MustParseAddrPort("127.0.0.1:22049"),
		State: dataplane.StateUp, Connections: 2, Accepted: 7, Refused: 1, Since: planetest.Born,
		Limits: dataplane.Limits{Connections: 100, Handshakes: 64},
		Access: dataplane.Access{Deny: []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}},
	},
	Target: "192.0.2.9:20049",
	TCP: dataplane.ConnectorStats{
		Calls: 12000, Replies: 11998, Failed: 1, Duplicates: 2, Callbacks: 5, Unanswered: 1, BytesReceived: 1 << 20, BytesSent: 1 << 33,
	},
}

// busy and sizes are what connection 1 counted.
var (
	busy = rpcrdma.Stats{
		Calls: 1200, Replies: 1199, Sends: 1199, SendsWithInvalidate: 800, Receives: 1200, RDMAReads: 40, RDMAWrites: 500,
		BytesReceived: 5_000_000_000, BytesSent: 1 << 40, Errors: 2,
		ReadChunks: 39, WriteChunks: 499, ReplyChunks: 3, OfferedBytes: 1 << 41, PlacedBytes: 1<<40 - 1,
		InFlightSum: 2400, Ignored: 4,
	}
	sizes = rpcrdma.Sizes{
		Calls:   rpcrdma.SizeCounts{7: 600, 8: 560, 13: 40},
		Replies: rpcrdma.SizeCounts{8: 600, 21: 599},
	}
)

func initial() rpcrdma.Settings {
	s := rpcrdma.DefaultSettings()
	s.CreditsMax = 128
	return s
}

// control ends the control plane and begins another: control OPTION…. Options
// are unix (a Unix socket), tls (with what certificates makes), viewer (that
// is all anybody may be), nobody (has a role), audit (an audit log), busy (one request is let in),
// degraded (a listener is, and there are adapters), console (it is on) and file (settings from a
// file, and stored), import (fakeImport), assigned (what a fleet gives waits for its controller).
func control(ts *testscript.TestScript, _ bool, options []string) {
	w, ok := ts.Value(worldKey{}).(*world)
	if !ok {
		ts.Fatalf("there is no control plane")
	}
	ts.Check(w.end())
	next, err := newWorld(ts.MkAbs("."), options)
	ts.Check(err)
	*w = *next
	ts.Setenv("RDMACTL_ADDR", w.control.Addr())
}

func stop(ts *testscript.TestScript, _ bool, _ []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ts.Check(ts.Value(worldKey{}).(*world).control.Shutdown(ctx))
}

// traffic makes a connection look as if larger messages should go inline:
// traffic ID.
func traffic(ts *testscript.TestScript, _ bool, args []string) {
	ts.Value(worldKey{}).(*world).plane.Count(args[0], func(c *dataplane.ConnInfo) {
		c.PeerReceive, c.PeerReceiveSize, c.PeerSendSize = 4096, 65536, 65536
		c.Stats.Calls, c.Stats.RDMAWrites, c.Stats.RDMAReads = 1000, 500, 300
		c.Sizes = rpcrdma.Sizes{Calls: rpcrdma.SizeCounts{7: 700, 14: 300}, Replies: rpcrdma.SizeCounts{8: 500, 13: 500}}
	})
}

// fileLayer is a configuration file that says something in its fifth line.
func fileLayer() settings.FileLayer {
	f := settings.FileLayer{Name: "/etc/rdmad.yaml"}
	f.Values.Set(live.InlineSendMax, 8192)
	f.Lines[live.InlineSendMax] = 5
	return f
}

// usage is the memory of a process whose control group allows less than it wants.
func usage() procmem.Usage {
	return procmem.Usage{
		Limit:  procmem.Limit{Bytes: 500 << 20, Source: "cgroup", Asked: 1 << 30, Group: procmem.Group{Bytes: 614 << 20, File: "/sys/fs/cgroup/memory.max"}},
		Mapped: 200 << 20, Go: 70 << 20, GoLimit: 300 << 20, Other: 30 << 20, Resident: 300 << 20, PeakResident: 400 << 20,
	}
}

package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rdmad/rdmad/interop/guest"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

// TestRdmacoreKnfsd lets our requester work with the kernel's NFS server over
// provider rdmacore and RoCEv2, as TestKnfsd does over soft-iWARP.
func TestRdmacoreKnfsd(t *testing.T) {
	g := bootJudged(t, guest.Options{}, otherPrograms)
	rxe := adapters[1]
	rxe.bring(t, g)
	serveLargest(t, g)
	t.Run("library", func(t *testing.T) {
		deviceTests{pkg: "../interop", runs: []string{"^TestDeviceKnfsd$"}, least: 9,
			flags: "-device.nfs 10.0.2.15:20049 -device.mountd 10.0.2.15:20048 -device.export /export -device.dir /export"}.run(t, g, rxe)
	})
	t.Run("rdmactl", func(t *testing.T) {
		buildRdmacore(t, g.ShareDir, "rdmactl", "build", "-tags", "rdmacore", "../cmd/rdmactl")
		out := g.MustRun(t, knfsdTime, "/host/rdmactl ping 10.0.2.15:20049 --provider rdmacore -o json --timeout 2m")
		var ping struct {
			RPCVersion     int `json:"rpc_version"`
			CreditsGranted int `json:"credits_granted"`
			InlineSend     int `json:"inline_send"`
		}
		if err := json.Unmarshal([]byte(out), &ping); err != nil || ping.RPCVersion != 1 || ping.CreditsGranted != 64 || ping.InlineSend != 4096 {
			t.Errorf("ping tells %s, %v", out, err)
		}
		checkBench(t, g.MustRun(t, knfsdTime, "/host/rdmactl bench 10.0.2.15:20049 --provider rdmacore -o json --timeout 2m "+
			"--op null --program 100003 --program-version 3 --depth 16 --duration 1s"))
	})
	nothingLeft(t, g)
}

// checkBench checks that rdmactl bench made calls, and that all were answered.
func checkBench(t *testing.T, out string) {
	t.Helper()
	var got struct{ Ops, Errors uint64 }
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.Ops == 0 || got.Errors != 0 {
		t.Errorf("bench tells %s, %v", out, err)
	}
}

// echoServer returns the configuration of an rdmad whose listener has the echo
// service.
func echoServer(provider, address, state string) string {
	return fmt.Sprintf(`control: {listen: "127.0.0.1:0"}
metrics: {listen: ""}
state: {path: %s}
listeners: [{name: echo, provider: %s, address: %q, service: test}]
services: [{name: test, echo: {}}]
`, state, provider, address)
}

const echoPort = 20051 // in the guest

// TestRdmacoreSoftiwarp lets softiwarp on the host and provider rdmacore on siw
// in the guest work with each other, in both directions: pings of the verbs,
// ECHO, NFSv3.
func TestRdmacoreSoftiwarp(t *testing.T) {
	g := bootJudged(t, guest.Options{Forward: []int{rpingPort, nfsRDMAPort, mountTCPPort, echoPort}},
		otherPrograms, "memory.unknown", "version.range") // attackers are among the peers
	siw := adapters[0]
	siw.bring(t, g)
	buildGuestRdmad(t, g)
	for _, crc := range []bool{false, true} {
		t.Run(fmt.Sprintf("crc=%t", crc), func(t *testing.T) {
			p := newSoftiwarp(t, softiwarp.Config{CRC: crc})
			t.Run("verbs/host to guest", func(t *testing.T) { testPingGuest(t, g, siw, p) })
			t.Run("verbs/guest to host", func(t *testing.T) { testPingHost(t, g, siw, p) })
		})
	}
	t.Run("host to guest", func(t *testing.T) { testHostToGuest(t, g) })
	t.Run("guest to host", func(t *testing.T) { testGuestToHost(t, g, siw) })
	slowly := delayed(g)
	t.Run("hostile", func(t *testing.T) { slowly(t, func() { testHostile(t, g, newSoftiwarp(t, softiwarp.Config{})) }) })
	t.Run("sinks", func(t *testing.T) { slowly(t, func() { testHostileSinks(t, g, newSoftiwarp(t, softiwarp.Config{})) }) })
	t.Run("shortages", func(t *testing.T) { slowly(t, func() { testShortages(t, g, newSoftiwarp(t, softiwarp.Config{})) }) })
	nothingLeft(t, g)
}

// rpingTests are package rping's tests of a device, in one role.
func rpingTests(role, flags string) deviceTests {
	sizes := strings.ReplaceAll(strings.Trim(fmt.Sprint(goClientSizes), "[]"), " ", ",")
	return deviceTests{pkg: "../interop/rping", runs: []string{"^TestDevice" + role + "$"}, least: 1,
		flags: fmt.Sprintf("-rping.sizes %s -rping.count %d %s", sizes, rpingCount, flags)}
}

func testPingGuest(t *testing.T, g *guest.Guest, a adapter, p rdmacm.Provider) {
	ctx, cancel := context.WithTimeout(t.Context(), rpingTime)
	defer cancel()
	var wg sync.WaitGroup
	defer wg.Wait()
	server := rpingTests("Server", fmt.Sprintf("-rping.port %d", rpingPort))
	server.build(t, g)
	wg.Go(func() { server.execute(t, g, a) })
	g.MustRun(t, rpingTime, fmt.Sprintf("until rdma resource show cm_id | grep -q 'state LISTEN.*:%d'; do sleep 0.05; done", rpingPort))
	for i, c := range dialAll(ctx, t, g, p, len(goClientSizes)) {
		wg.Go(func() {
			if err := errors.Join(c.Ping(ctx, goClientSizes[i], rpingCount), c.Close()); err != nil {
				t.Errorf("%d bytes: %v", goClientSizes[i], err)
			}
		})
	}
}

func testPingHost(t *testing.T, g *guest.Guest, a adapter, p rdmacm.Provider) {
	ctx, cancel := context.WithTimeout(t.Context(), rpingTime)
	defer cancel()
	l, err := p.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var wg sync.WaitGroup
	for range goClientSizes {
		wg.Go(func() {
			if err := serveRping(ctx, l); err != nil {
				t.Errorf("serving: %v", err)
			}
		})
	}
	rpingTests("Client", fmt.Sprintf("-rping.server 10.0.2.2:%d", l.Addr().Port())).run(t, g, a)
	if t.Failed() {
		cancel()
	}
	wg.Wait()
}

// echoBenches are the runs of rdmactl bench with the echo service.
var echoBenches = []string{"--op null", "--op echo --size 3000", "--op read --size 300000", "--op write --size 300000"}

// testHostToGuest has an rdmad in the guest, on provider rdmacore, serve a
// requester on the host.
func testHostToGuest(t *testing.T, g *guest.Guest) {
	p := newSoftiwarp(t, softiwarp.Config{CRC: true})
	r := startGuestRdmad(t, g, onlyServer)
	defer r.stop(t)
	port := func(n int) string { return fmt.Sprintf("127.0.0.1:%d", g.HostPort(n)) }
	s := &kernelServer{view: r.shell, slow: delayed(g), address: port(nfsRDMAPort), root: mountExport(t, port(mountTCPPort), "/")}
	t.Run("nfs 3", func(t *testing.T) { testV3(t, s, p, rpcrdma.DefaultSettings()) })
	t.Run("nfs 3 in chunks", func(t *testing.T) { testV3(t, s, p, inChunks()) })
	t.Run("echo", func(t *testing.T) {
		e := startGuestEcho(t, g, rdmacoreLimits)
		defer e.stop(t)
		program := build(t, t.TempDir(), "rdmactl")
		s.slowly(t, func() {
			for _, args := range echoBenches {
				cmd := exec.CommandContext(t.Context(), program, strings.Fields("bench "+port(echoPort)+" -o json --timeout 2m --depth 8 --duration 1s "+args)...)
				out, err := cmd.Output()
				if err != nil {
					t.Fatalf("%v: %v", cmd, err)
				}
				checkBench(t, string(out))
			}
		})
	})
}

func guestEchoConfig() string {
	return echoServer("rdmacore", fmt.Sprintf("%s:%d", guestAddress, echoPort), "/tmp/echo.state")
}

// startGuestEcho starts the echo service in the guest, with limits of its process.
func startGuestEcho(t *testing.T, g *guest.Guest, limits string) *guestRdmad {
	t.Helper()
	return startGuestRdmad(t, g, guestServer{name: "echo", text: guestEchoConfig(), limits: limits})
}

// testGuestToHost has an rdmad on the host, on softiwarp, serve requesters on
// provider rdmacore in the guest.
func testGuestToHost(t *testing.T, g *guest.Guest, a adapter) {
	nfs := startRdmadAs(t, g.ShareDir, func(r *rdmad) string {
		export := filepath.Join(r.shareDir, "export")
		if err := os.Mkdir(export, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		return strings.Replace(r.exporting(), "./export", export, 1)
	})
	echo := startRdmadAs(t, g.ShareDir, func(r *rdmad) string { return echoServer("softiwarp", r.rdma, "./state") })
	deviceTests{pkg: "../interop", runs: []string{"^TestDeviceNFS$"}, least: 3, flags: fmt.Sprintf(
		"-device.nfs 10.0.2.2:%s -device.mountd 10.0.2.2:%s -device.export / -device.dir /host/export", portOf(nfs.rdma), portOf(nfs.tcp))}.run(t, g, a)
	for _, args := range echoBenches {
		checkBench(t, g.MustRun(t, knfsdTime, fmt.Sprintf(
			"/tmp/rdmactl bench 10.0.2.2:%s --provider rdmacore -o json --timeout 2m --depth 8 --duration 1s %s", portOf(echo.rdma), args)))
	}
}

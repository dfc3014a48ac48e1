package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/rpcbind/rpcbindtest"
)

// TestRPCBind: a rdmad registers with the real rpcbind while it serves, and a rdmad also serves
// without rpcbind.
func TestRPCBind(t *testing.T) {
	host := rpcbindtest.Isolate(t)
	if host == nil {
		return
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "rdmad.yaml")
	const text = `
state: {path: state}
services:
  - {name: data, nfs: {path: srv, tcp_listen: ":20048"}}
  - {name: test, echo: {}}
listeners:
  - {name: nfs, provider: softiwarp, address: ":20049", service: data, rpcbind: on}
  - {name: again, provider: softiwarp, address: ":20052", service: data}
  - {name: echo, provider: softiwarp, address: "127.0.0.1:20059", service: test, rpcbind: on}
`
	must(t, os.WriteFile(config, []byte(text), 0o600))
	makeDirectory(t, filepath.Join(dir, "srv"))
	t.Run("absent", func(t *testing.T) {
		p := startRDMAD(t, dir, config)
		endRDMAD(t, p)
		for _, want := range []string{"cannot register with rpcbind, retrying", "/run/rpcbind.sock: connect: no such file or directory"} {
			if !strings.Contains(p.Log(), want) {
				t.Errorf("log lacks %q:\n%s", want, p.Log())
			}
		}
	})
	t.Run("there", func(t *testing.T) {
		host.Start(t)
		p := startRDMAD(t, dir, config)
		const want = "537002057 1 rdma 127.0.0.1.78.91 superuser, " + // in the order of the listeners' names
			"100003 3 rdma6 ::.78.81 superuser, 100003 3 rdma 0.0.0.0.78.81 superuser, " +
			"100005 3 tcp6 ::.78.80 superuser, 100005 3 tcp 0.0.0.0.78.80 superuser"
		got := ""
		for deadline := time.Now().Add(startTimeout); got != want && time.Now().Before(deadline); {
			got = strings.Join(host.Registered(t), ", ")
		}
		if got != want {
			t.Errorf("registered: %s\nwant: %s", got, want)
		}
		endRDMAD(t, p)
		if left := host.Registered(t); len(left) != 0 {
			t.Errorf("registered after the end: %v", left)
		}
		if strings.Contains(p.Log(), `"level":"WARN"`) {
			t.Errorf("log:\n%s", p.Log())
		}
	})
}

func startRDMAD(t *testing.T, dir, config string) *process {
	t.Helper()
	program := have(exec.LookPath("rdmad"))(t)
	p := have(startProcess(program, dir, []string{"--config", config}))(t)
	t.Cleanup(p.kill)
	return p
}

// endRDMAD ends a rdmad by SIGTERM and checks that it ends in order.
func endRDMAD(t *testing.T, p *process) {
	t.Helper()
	must(t, p.signal("TERM"))
	if code := p.wait(); code != 0 || strings.Contains(p.Log(), "still registered") {
		t.Fatalf("ended with code %d; log:\n%s", code, p.Log())
	}
}

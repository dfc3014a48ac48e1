// Package costs measures what calls and connections cost rdmad. `make syscalls` and `make many`
// run it.
package costs

import (
	"context"
	"flag"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/rdmad/rdmad/dataplane/nfstest"
	"github.com/rdmad/rdmad/dataplane/rpctcp"
	"github.com/rdmad/rdmad/interop/child"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/verbs/softiwarp"
)

var program = flag.String("rdmad", "", "the rdmad to measure, with its path; rdmactl is beside it")

const (
	nfsProgram = 100003
	hung       = 30 * time.Second
)

// daemon is a running rdmad: its addresses and its process id.
type daemon struct {
	rdma, tcp, control string
	pid                int
}

// start starts rdmad with an export on a tmpfs. config is added to its configuration.
func start(b *testing.B, more string) daemon {
	if *program == "" {
		b.Fatal("no -rdmad: see the Makefile")
	}
	dir, err := os.MkdirTemp("/dev/shm", "rdmad-costs") //nolint:usetesting // a tmpfs, whatever TMPDIR is
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { os.RemoveAll(dir) })
	config := `control: {listen: "127.0.0.1:0"}
state: {path: ./state}
listeners: [{name: nfs, provider: softiwarp, address: "127.0.0.1:0", service: export}]
services:
  - {name: export, nfs: {path: ./export, tcp_listen: "127.0.0.1:0"}}
` + more
	if err := os.Mkdir(filepath.Join(dir, "export"), 0o755); err != nil {
		b.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rdmad.yaml"), []byte(config), 0o600); err != nil {
		b.Fatal(err)
	}
	path, err := filepath.Abs(*program)
	if err != nil {
		b.Fatal(err)
	}
	cmd := exec.Command(path, "--config", "rdmad.yaml")
	cmd.Dir = dir
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	p, err := child.StartDaemon(ctx, cmd, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		p.Signal(syscall.SIGTERM)
		if err := p.Wait(); err != nil || b.Failed() {
			b.Errorf("rdmad: %v\n%s", err, p.Log())
		}
	})
	return daemon{rdma: p.Address("listener"), tcp: p.Address("service"), control: p.Address("control plane"), pid: p.Pid()}
}

func dialRDMA(b *testing.B, address string) (nfstest.Carrier, null) {
	p, err := softiwarp.New(softiwarp.Config{})
	if err != nil {
		b.Fatal(err)
	}
	c, err := rpcrdma.Dial(context.Background(), p, address, rpcrdma.DialConfig{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return nfstest.RDMA{Client: c, Auth: nfstest.User(0, 0)}, func() error {
		return c.Call(context.Background(), &rpcrdma.Call{Program: nfsProgram, Version: 3})
	}
}

func dialTCP(b *testing.B, address string) (nfstest.Carrier, null) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	c := rpctcp.NewClient(conn, rpctcp.ClientConfig{Cred: nfstest.User(0, 0)})
	b.Cleanup(func() { c.Close() })
	return nfstest.TCP{Client: c, Auth: nfstest.User(0, 0)}, func() error {
		_, err := c.Call(context.Background(), nfsProgram, 3, 0, nil, nil)
		return err
	}
}

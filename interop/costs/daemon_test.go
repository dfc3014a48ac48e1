// Package costs measures what calls and connections cost rdmad. `make syscalls` and `make many`
// run it.
package costs

import (
	"bytes"
	"context"
	"flag"
	"fmt"
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
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
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
	d := daemon{rdma: free(b), tcp: free(b), control: free(b)}
	config := fmt.Sprintf(`control: {listen: %q}
state: {path: ./state}
listeners: [{name: nfs, provider: softiwarp, address: %q, service: export}]
services:
  - {name: export, nfs: {path: ./export, tcp_listen: %q}}
%s`, d.control, d.rdma, d.tcp, more)
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
	log := &startLog{ready: make(chan struct{})}
	cmd := exec.Command(path, "--config", "rdmad.yaml")
	cmd.Dir, cmd.Stderr = dir, log
	process, err := child.Start(cmd)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		process.Signal(syscall.SIGTERM)
		if err := process.Wait(); err != nil || b.Failed() {
			b.Errorf("rdmad: %v\n%s", err, &log.text)
		}
	})
	d.pid = process.Pid()
	select {
	case <-log.ready:
	case <-process.Done():
		b.Fatal("rdmad does not start")
	case <-time.After(hung):
		b.Fatal("rdmad is not ready")
	}
	return d
}

// startLog keeps the log and notices when rdmad is ready.
type startLog struct {
	text  bytes.Buffer
	ready chan struct{}
}

// Write implements io.Writer. The log comes in whole lines.
func (l *startLog) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("msg=ready")) {
		close(l.ready)
	}
	return l.text.Write(p)
}

// free returns an address that nobody uses.
func free(b *testing.B) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
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
	return nfstest.RDMA{Client: c, Auth: auth()}, func() error {
		return c.Call(context.Background(), &rpcrdma.Call{Program: nfsProgram, Version: 3})
	}
}

func dialTCP(b *testing.B, address string) (nfstest.Carrier, null) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		b.Fatal(err)
	}
	c := rpctcp.NewClient(conn, rpctcp.ClientConfig{Cred: auth()})
	b.Cleanup(func() { c.Close() })
	return nfstest.TCP{Client: c, Auth: auth()}, func() error {
		_, err := c.Call(context.Background(), nfsProgram, 3, 0, nil, nil)
		return err
	}
}

// auth is the credential of all calls: root's.
func auth() oncrpc.Auth {
	sys := oncrpc.AuthSys{MachineName: []byte("costs")}
	return oncrpc.Auth{Flavor: oncrpc.FlavorSys, Body: sys.Append(nil)}
}

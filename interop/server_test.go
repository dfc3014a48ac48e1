package interop

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

// serverFlag lets the matrix be checked against the kernel's own server: what
// fails there is a fault of the tests.
var serverFlag = flag.String("server", "rdmad", "who serves NFS: rdmad on the host, or, in the guest, knfsd (TestNFS) or ganesha (TestGateway)")

// A transport is mount.nfs's proto option.
type transport string

const (
	overRDMA transport = "rdma"
	overTCP  transport = "tcp"
)

// nfsServer is an NFS server with one export.
type nfsServer interface {
	// mountArgs are mount.nfs's source and -o argument.
	mountArgs(via transport) (source, options string)
	// shell runs a script in the export's directory, on the server's side,
	// and returns what it printed. The test fails at once if it fails.
	shell(t testing.TB, script string) string
	// share is the server side's path of the guest's /host.
	share() string
}

// serverTime bounds one script on the server's side.
const serverTime = 6 * time.Minute

// knfsd is the guest's own kernel server.
type knfsd struct{ g *guest.Guest }

func (k knfsd) mountArgs(via transport) (source, options string) {
	port := 2049
	if via == overRDMA {
		port = 20049
	}
	return "10.0.2.15:/export", fmt.Sprintf("vers=3,proto=%s,port=%d,mountport=20048,mountproto=tcp,nolock", via, port)
}

func (k knfsd) shell(t testing.TB, script string) string {
	t.Helper()
	return k.g.MustRun(t, serverTime, "set -e; cd /export; "+script)
}

func (k knfsd) share() string { return "/host" }

// runInDir runs a script on the host.
func runInDir(t testing.TB, dir, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), serverTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-ec", script)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), "LC_ALL=C")
	cmd.WaitDelay = witnessTime // for what it leaves behind
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("on the host, in %s: %v\nscript:\n%s\nstdout:\n%s\nstderr:\n%s", dir, err, script, &stdout, &stderr)
	}
	return stdout.String()
}

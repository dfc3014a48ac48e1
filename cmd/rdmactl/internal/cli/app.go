// Package cli is rdmactl's command line: commands, flags, completion, what
// goes wrong and the exit code.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1 // rdmad refused, or is not reachable
	exitUsage  = 2 // the command line makes no sense
)

const (
	defaultAddr    = "127.0.0.1:20050"
	packageSocket  = "/run/rdmad/control.sock" // where the Debian package's rdmad listens
	defaultTimeout = 5 * time.Second
)

// app is what commands share.
type app struct {
	version string
	stdout  io.Writer
	stderr  io.Writer

	addr    string
	socket  string // what there may be elsewhere
	format  string
	colour  string
	timeout time.Duration
	tls     tlsFlags

	// allowed is the time that the last requests had.
	allowed time.Duration
	// silent is how long a request, or reading a file, may take before a terminal
	// shows its progress. rdmactl looks at a pending request this often.
	silent time.Duration
}

// Main runs the process's command line and returns its exit code.
func Main(version string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return Run(ctx, version, os.Args[1:], os.Stdout, os.Stderr)
}

// Run runs one command line and returns its exit code. Streams end when ctx
// does.
func Run(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	a := &app{version: version, stdout: stdout, stderr: stderr, socket: packageSocket, silent: time.Second}
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	err := root.ExecuteContext(ctx)
	var usage *usageError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		fmt.Fprintf(stderr, "rdmactl: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(stderr, "rdmactl: %s\n", a.explain(err))
		return exitFailed
	}
}

// printer writes answers in the format asked for.
func (a *app) printer() *output.Printer {
	return output.NewPrinter(a.stdout, a.format).Colours(a.colour)
}

// check looks at the flags that all commands have.
func (a *app) check() error {
	if !output.KnownFormat(a.format) {
		return usagef("--output %q is none of %s", a.format, strings.Join(output.Formats, ", "))
	}
	if !slices.Contains(output.Colourings, a.colour) {
		return usagef("--color %q is none of %s", a.colour, strings.Join(output.Colourings, ", "))
	}
	if a.timeout <= 0 {
		return usagef("--timeout must be longer than 0")
	}
	if strings.HasPrefix(a.addr, "unix:///") {
		return a.tls.none()
	}
	if _, _, err := net.SplitHostPort(a.addr); err != nil {
		return usagef("--addr %q is neither host:port nor unix:///path", a.addr)
	}
	return a.tls.check()
}

// dial prepares a connection to the daemon; the first call makes it.
func (a *app) dial() (*grpc.ClientConn, error) {
	target := a.addr
	if !strings.HasPrefix(target, "unix:") {
		target = "passthrough:///" + target
	}
	creds, err := a.tls.credentials()
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(target,
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: a.timeout}),
		grpc.WithUserAgent("rdmactl/"+a.version),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
}

// maxAnswer is as large as rdmad makes answers, in bytes.
const maxAnswer = 16 << 20

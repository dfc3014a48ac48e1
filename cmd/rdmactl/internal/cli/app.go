// Package cli is rdmactl's command line: commands, flags, completion, error messages and exit
// codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/rdmad/rdmad/cmd/internal/interrupt"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
)

const (
	defaultAddr    = "127.0.0.1:20050"
	packageSocket  = "/run/rdmad/control.sock" // where the packaged rdmad listens
	defaultTimeout = 5 * time.Second
)

// app is what commands share.
type app struct {
	version string
	stdout  io.Writer
	stderr  io.Writer

	where   whereFlags
	global  *pflag.FlagSet // those of all commands
	command *cobra.Command // that runs; nil in completions
	socket  string         // path of the packaged socket, which may exist
	format  string
	colour  string
	timeout time.Duration
	// one is set if the command runs for one of several contexts.
	one bool

	// addr and tls are those of the last request.
	addr string
	tls  tlsFlags

	// allowed is the time that the last requests had.
	allowed time.Duration
	// silent is how long a request, or reading a file, may take before a terminal
	// shows its progress. rdmactl looks at a pending request this often.
	silent time.Duration
	// retry is the time between two attempts to continue a stream.
	retry time.Duration
}

// Main runs the process's command line and returns its exit code.
func Main(version string) int {
	ctx, end := interrupt.Context()
	defer end()
	return Run(ctx, version, os.Args[1:], os.Stdout, os.Stderr)
}

// Run runs one command line and returns its exit code. Streams end when ctx
// does.
func Run(ctx context.Context, version string, args []string, stdout, stderr io.Writer) int {
	a := &app{version: version, stdout: stdout, stderr: stderr, socket: packageSocket, silent: time.Second, retry: time.Second}
	return a.run(ctx, args)
}

// run runs a command line once, or once for each of several contexts.
func (a *app) run(ctx context.Context, args []string) int {
	root := newRoot(a)
	root.SetArgs(args)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	err := root.ExecuteContext(ctx)
	if several, ok := errors.AsType[*severalError](err); ok {
		return a.each(ctx, several, args)
	}
	if err != nil {
		fmt.Fprintf(a.stderr, "rdmactl: %s\n", a.explain(err))
	}
	return exitCode(err)
}

// printer writes answers in the format asked for.
func (a *app) printer() *output.Printer {
	return output.NewPrinter(a.stdout, a.format).Colours(a.colour)
}

// check looks at the flags that all commands have.
func (a *app) check() error {
	if !slices.Contains(output.Formats, a.format) {
		return usagef("--output %q is not one of %s", a.format, strings.Join(output.Formats, ", "))
	}
	if !slices.Contains(output.Colourings, a.colour) {
		return usagef("--color %q is not one of %s", a.colour, strings.Join(output.Colourings, ", "))
	}
	if a.timeout <= 0 {
		return usagef("--timeout must be longer than 0")
	}
	return a.where.check()
}

// dial prepares a connection to the daemon; the first call makes it.
func (a *app) dial() (*grpc.ClientConn, error) {
	where, err := a.locate()
	if err != nil {
		return nil, err
	}
	a.use(where)
	target := url.URL{Scheme: "passthrough", Path: "/" + a.addr} // gRPC takes escapes out of it again
	if path, ok := strings.CutPrefix(a.addr, "unix://"); ok {
		target = url.URL{Scheme: "unix", Path: path}
	}
	creds, err := a.tls.credentials()
	if err != nil {
		return nil, err
	}
	return grpc.NewClient(target.String(), a.options(creds)...)
}

// quietTime is how long a connection may be quiet before rdmactl asks whether rdmad is still there, and pingTime how
// long it waits for the answer.
const (
	quietTime = 30 * time.Second
	pingTime  = 10 * time.Second
)

// options are those of connections to the daemon.
func (a *app) options(creds credentials.TransportCredentials) []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithNoProxy(),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.DefaultConfig, MinConnectTimeout: a.timeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: quietTime, Timeout: pingTime}), // a machine that vanished says nothing
		grpc.WithUserAgent("rdmactl/" + a.version),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)),
	}
}

// maxAnswer is as large as rdmad makes answers, in bytes.
const maxAnswer = 16 << 20

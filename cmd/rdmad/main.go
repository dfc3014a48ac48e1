// Command rdmad serves RPC-over-RDMA connections, and a control plane for them. See
// README.md.
//
// Exit codes: 0 after an orderly end, 1 when something failed while serving, or kept
// rdmad from ending in time, or audit verify or state check found damage, 2 when it could
// not start (standard error says why, with a line for each mistake of the configuration).
package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/rdmad/rdmad/cmd/rdmad/internal/config"
	"github.com/rdmad/rdmad/controlplane/audit"
	"github.com/rdmad/rdmad/controlplane/configfile"
)

// version is set at build time.
var version = ""

// init keeps the main thread for the main goroutine, which only waits while rdmad serves. The kernel gives a signal to the
// main thread, and to no other one while that hangs in a file system.
func init() { runtime.LockOSThread() }

func main() {
	os.Exit(run(os.Args[1:]))
}

// run executes the command line and returns the exit code.
func run(args []string) int {
	cmd := newCommand()
	cmd.SetArgs(args)
	err := cmd.Execute()
	if err == nil {
		return 0
	}
	if errors.As(err, new(*servingError)) {
		return 1
	}
	var mistakes configfile.Errors
	if !errors.As(err, &mistakes) {
		fmt.Fprintln(os.Stderr, "rdmad:", config.OneLine(err))
	}
	for _, one := range mistakes {
		fmt.Fprintln(os.Stderr, "rdmad:", config.OneLine(one))
	}
	if errors.As(err, new(*audit.DamageError)) || errors.As(err, new(*stateError)) {
		return 1
	}
	return 2
}

// servingError is a failure after everything was started, or something that hangs. The log has it. Nothing else writes it to
// standard error, which may take nothing any more.
type servingError struct{ err error }

func (e *servingError) Error() string { return e.err.Error() }
func (e *servingError) Unwrap() error { return e.err }

// versionString returns the version of this binary.
func versionString() string {
	v := version
	if v == "" {
		v = "devel"
		if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
			v = info.Main.Version
		}
	}
	return v
}

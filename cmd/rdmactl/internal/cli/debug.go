package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/controlplane/profile"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newDebug(a *app) *cobra.Command {
	return group(&cobra.Command{Use: "debug", Short: "Look into the rdmad process"}, newDebugChannelz(a), newDebugPprof(a))
}

// profileFlags say where a profile goes, and how long it takes.
type profileFlags struct {
	file     string
	duration time.Duration
}

func newDebugPprof(a *app) *cobra.Command {
	var f profileFlags
	cmd := &cobra.Command{
		Use:   "pprof PROFILE",
		Short: "Write a profile of the rdmad process to a file",
		Long: `Write a profile of the rdmad process to a file, for go tool pprof: allocs,
goroutine, heap or threadcreate show a moment; block, cpu and mutex what happens
in --duration. The profile trace is an execution trace for go tool trace. You need
the role admin.`,
		Example: `  rdmactl debug pprof heap -w heap.pprof
  rdmactl debug pprof cpu -w cpu.pprof --duration 30s`,
		Annotations:       oneContext,
		ValidArgsFunction: fixed(profiles()...),
	}
	cmd.Flags().StringVarP(&f.file, "write", "w", "", "file to write or overwrite; - for standard output")
	must(cmd.MarkFlagFilename("write"))
	cmd.Flags().DurationVar(&f.duration, "duration", 10*time.Second, "how long to take block, cpu, mutex or trace; at most 10m")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		req, err := f.request(a, args[0], cmd.Flags().Changed("duration"))
		if err != nil {
			return err
		}
		return a.profile(cmd.Context(), req, f.file)
	}
	return cmd
}

// profiles are the names of the profiles.
func profiles() (names []string) {
	for n := rdmadv1.ProfileRequest_ALLOCS; n <= rdmadv1.ProfileRequest_TRACE; n++ {
		names = append(names, strings.ToLower(n.String()))
	}
	return names
}

func (f *profileFlags) request(a *app, name string, timed bool) (*rdmadv1.ProfileRequest, error) {
	kind := rdmadv1.ProfileRequest_Kind(rdmadv1.ProfileRequest_Kind_value[strings.ToUpper(name)])
	req := &rdmadv1.ProfileRequest{Kind: kind}
	switch {
	case kind == rdmadv1.ProfileRequest_KIND_UNSPECIFIED:
		return nil, usagef("%q is not one of %s", name, strings.Join(profiles(), ", "))
	case f.file == "":
		return nil, usagef("debug pprof needs -w FILE, or -w - for standard output")
	case f.file == dash && a.format != output.FormatTable:
		return nil, usagef("-w - and -o %s both use standard output: change one of them", a.format)
	case f.file == dash && isTerminal(a.stdout):
		return nil, usagef("a profile is binary, and standard output is a terminal: use -w FILE, or a pipe")
	case profile.Timed(strings.ToLower(name)):
		req.Duration = durationpb.New(f.duration)
	case timed:
		return nil, usagef("--duration is only for block, cpu, mutex and trace: %s shows a moment", name)
	}
	return req, nil
}

// written is what became of a profile.
type written struct {
	File  string `json:"file"`
	Bytes int64  `json:"bytes"`
}

// profile writes what rdmad sends. A file that is there is overwritten when the first part comes,
// not when rdmad refuses. After a restart of rdmad there is another process, whose profile does not go on with this one.
func (a *app) profile(ctx context.Context, req *rdmadv1.ProfileRequest, name string) error {
	conn, err := a.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	var out io.WriteCloser
	done := written{File: name}
	err = receive(ctx, conn, api.Profile, req, func() {}, func(part *rdmadv1.ProfileResponse) (err error) {
		if out == nil {
			if out, err = a.create(name); err != nil {
				return err
			}
		}
		n, err := out.Write(part.GetData())
		done.Bytes += int64(n)
		return err
	})
	switch {
	case errors.Is(err, io.EOF):
		err = nil
	case ended(ctx, err):
		err = errors.New("interrupted: the profile is not complete")
	}
	if out != nil {
		if closed := out.Close(); err == nil {
			err = closed
		}
	}
	if err != nil {
		return err
	}
	if a.format != output.FormatTable {
		return a.printer().Answer(&done, nil)
	}
	fmt.Fprintf(a.stderr, "%s: %d bytes\n", done.File, done.Bytes)
	return nil
}

// create opens a file to write, or standard output.
func (a *app) create(name string) (io.WriteCloser, error) {
	if name == dash {
		return nopCloser{a.stdout}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err // not a nil file, which is no nil WriteCloser
	}
	return f, nil
}

package cli

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/internal/providers"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/rpcrdma"
)

// reach are the flags of commands that make RPC-over-RDMA connections
// themselves.
type reach struct {
	provider         string
	program, version uint32
	programs         bool // program was given
	rpcVersion       int  // of RPC-over-RDMA; 0: 2 if the server speaks it, else 1
}

func (r *reach) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.provider, "provider", providers.Default, "verbs provider to connect with")
	f.Uint32Var(&r.program, "program", 0, "ONC RPC program whose NULL procedure to call (default: NFS, else echo)")
	f.Uint32Var(&r.version, "program-version", 0, "version of --program")
	must(cmd.RegisterFlagCompletionFunc("provider", fixed(providers.Names()...)))
}

// versionFlag adds --rpc-version, with a default.
func (r *reach) versionFlag(cmd *cobra.Command, version int, usage string) {
	cmd.Flags().IntVar(&r.rpcVersion, "rpc-version", version, usage)
	must(cmd.RegisterFlagCompletionFunc("rpc-version", fixed("1", "2")))
}

// check looks at the flags and at HOST:PORT.
func (r *reach) check(cmd *cobra.Command, address string) error {
	if !slices.Contains(providers.Names(), r.provider) {
		return usagef("--provider %q is not one of %v", r.provider, providers.Names())
	}
	if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
		return usagef("%q is not HOST:PORT", address)
	}
	if r.rpcVersion < 0 || r.rpcVersion > 2 || r.rpcVersion == 0 && cmd.Flags().Changed("rpc-version") {
		return usagef("--rpc-version %d must be 1 or 2", r.rpcVersion)
	}
	r.programs = cmd.Flags().Changed("program")
	if r.programs != cmd.Flags().Changed("program-version") {
		return usagef("--program and --program-version need each other")
	}
	return nil
}

// speak has settings make connections of the version that was asked for.
func (r *reach) speak(s *rpcrdma.Settings) *rpcrdma.Settings {
	switch r.rpcVersion {
	case 0:
		s.Extensions |= rpcrdma.ExtV2
	case 2:
		s.Extensions |= rpcrdma.ExtV2Only
	}
	return s
}

// wanted is the program that was asked for, nil for any.
func (r *reach) wanted() *target.Program {
	if !r.programs {
		return nil
	}
	return &target.Program{Number: r.program, Version: r.version}
}

// at runs f with a connection to address.
func (a *app) at(ctx context.Context, r *reach, address string, s *rpcrdma.Settings, f func(*target.Target) error) error {
	t, err := target.Dial(ctx, r.provider, address, a.timeout, s)
	if err != nil {
		return interrupted(ctx, err)
	}
	err = f(t)
	if closed := t.Close(); err == nil && closed != nil {
		err = fmt.Errorf("%s: closing the connection: %w", address, closed)
	}
	return interrupted(ctx, err)
}

// interrupted puts the end of ctx, which is the user's doing, into words.
func interrupted(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("interrupted")
	}
	return err
}

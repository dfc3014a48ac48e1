package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/bench"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/target"
	"github.com/rdmad/rdmad/rpcrdma"
)

const pingHelp = `Connect to any RPC-over-RDMA server, print the negotiated values, and measure the
time of NULL calls. This machine needs no rdmad. The server may be another one,
such as a kernel's NFS server.

ping calls NULL of --program and --program-version if you name them. Otherwise it
calls NULL of NFS in a version that the server has, else of rdmad's echo program.
It makes one call before the first that it prints.

ping uses version 2 of RPC-over-RDMA if the server speaks it, else version 1.
--rpc-version offers only that version.

With --count above 1, JSON has one object per line.`

const pingExamples = `  rdmactl ping 192.0.2.7:20049
  rdmactl ping -c 10 --interval 200ms nfs.example.net:20049
  rdmactl ping --program 100003 --program-version 4 192.0.2.7:20049 -o json`

// pingResult is one answer; its JSON names are fixed.
type pingResult struct {
	RPCVersion         int     `json:"rpc_version"`
	RTT                float64 `json:"rtt_us"`
	CreditsGranted     uint32  `json:"credits_granted"`
	InlineSend         uint32  `json:"inline_send"`
	InlineReceive      uint32  `json:"inline_receive"`
	RemoteInvalidation bool    `json:"remote_invalidation"`
}

// pinger is a ping being made.
type pinger struct {
	*app
	reach
	count    int
	interval time.Duration
}

func newPing(a *app) *cobra.Command {
	p := &pinger{app: a}
	cmd := &cobra.Command{
		Use:         "ping HOST:PORT",
		Short:       "Check that an RPC-over-RDMA server answers, and how fast",
		Long:        pingHelp,
		Example:     pingExamples,
		Annotations: noContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := p.check(cmd, args[0]); err != nil {
				return err
			}
			return p.at(cmd.Context(), &p.reach, args[0], p.speak(new(rpcrdma.DefaultSettings())), func(t *target.Target) error { return p.run(cmd.Context(), t) })
		},
	}
	p.versionFlag(cmd, 0, "RPC-over-RDMA version to offer, 1 or 2 (default: negotiated)")
	p.flags(cmd)
	cmd.Flags().IntVarP(&p.count, "count", "c", 1, "how many times")
	cmd.Flags().DurationVar(&p.interval, "interval", time.Second, "time between two calls")
	return cmd
}

func (p *pinger) check(cmd *cobra.Command, address string) error {
	switch {
	case p.count < 1:
		return usagef("--count must be 1 or more")
	case p.interval < 0:
		return usagef("--interval must not be negative")
	}
	return p.reach.check(cmd, address)
}

// run makes the calls; the user may end it after any.
func (p *pinger) run(ctx context.Context, t *target.Target) error {
	program, err := t.Find(ctx, p.wanted(), p.timeout)
	if err != nil {
		return err
	}
	var all []time.Duration
	for len(all) < p.count {
		if len(all) > 0 && !pause(ctx, p.interval) {
			break
		}
		rtt, err := t.Null(ctx, program, p.timeout)
		if err = t.Explain(ctx, program, p.timeout, err); err != nil {
			if ctx.Err() != nil && len(all) > 0 {
				break
			}
			return err
		}
		all = append(all, rtt)
		if err := p.show(t, program, len(all), rtt); err != nil {
			return err
		}
	}
	return p.sum(all)
}

// pause waits for d and says whether ctx is still alive.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// show writes answer number n.
func (p *pinger) show(t *target.Target, program target.Program, n int, rtt time.Duration) error {
	i := t.Info()
	res := pingResult{
		RPCVersion: i.RPCVersion, RTT: bench.Micros(rtt), CreditsGranted: i.CreditsGranted,
		InlineSend: i.InlineSend, InlineReceive: i.InlineReceive, RemoteInvalidation: i.RemoteInvalidation,
	}
	if p.format != output.FormatTable {
		if p.count == 1 {
			return p.printer().Answer(res, nil)
		}
		return p.printer().Event(res, nil)
	}
	if n == 1 {
		if err := p.printer().Answer(res, func() *output.Table { return pingTable(t, program, &res) }); err != nil {
			return err
		}
	}
	return p.printer().Note("%-19s  %s, %d credits", fmt.Sprintf("answer %d", n), micros(res.RTT), res.CreditsGranted)
}

func pingTable(t *target.Target, program target.Program, r *pingResult) *output.Table {
	out := output.Pairs()
	out.Row("peer", t.Info().Peer.String())
	out.Row("provider", t.Info().Provider)
	out.Row("answers", program.String())
	out.Row("rpc version", fmt.Sprint(r.RPCVersion))
	out.Row("inline send", fmt.Sprintf("%d bytes", r.InlineSend))
	out.Row("inline receive", fmt.Sprintf("%d bytes", r.InlineReceive))
	out.Row("remote invalidation", onOff(r.RemoteInvalidation))
	out.Row("connected in", micros(bench.Micros(t.Info().ConnectTime)))
	return out
}

// sum writes what several came to.
func (p *pinger) sum(all []time.Duration) error {
	if len(all) < 2 {
		return nil
	}
	slices.Sort(all)
	at := func(i int) string { return micros(bench.Micros(all[i])) }
	return p.printer().Note("%d answers, round trip min %s, median %s, max %s", len(all), at(0), at(len(all)/2), at(len(all)-1))
}

// micros writes a time given in us.
func micros(us float64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%.1f µs", us)
	case us < 1e6:
		return fmt.Sprintf("%.2f ms", us/1000)
	}
	return fmt.Sprintf("%.2f s", us/1e6)
}

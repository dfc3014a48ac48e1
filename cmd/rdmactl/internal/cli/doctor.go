package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/doctor"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	"github.com/rdmad/rdmad/cmd/rdmactl/internal/terminal"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

const doctorHelp = `Find out why a mount from an RPC-over-RDMA server fails or is slow. Run it on the
client, as root: a server may refuse mounts from ports above 1023. The server may be
rdmad or a kernel's.

Each line has one check with its result, the reason and the remedy:
  OK       nothing to do
  WARNING  it works, but slower or less safely than possible
  FAILED   a mount fails
  SKIPPED  an earlier check failed, or there is nothing to check

doctor checks port 20049 unless HOST names another. If no check FAILED, the last
line is the mount command. With --addr, the address of the server's rdmad, it also
checks rdmad's clock, settings and advice.

The exit code is 1 if a check failed.`

const doctorExamples = `  rdmactl doctor nfs.example.net
  rdmactl doctor 192.0.2.7:20060 --export /srv/data
  rdmactl doctor nfs.example.net --addr nfs.example.net:20050 -o json`

// doctorCommand is a doctor run.
type doctorCommand struct {
	*app
	reach
	export    string
	mountPort uint16
	machine   doctor.Machine
}

func newDoctor(a *app) *cobra.Command {
	d := &doctorCommand{app: a, machine: doctor.ThisMachine()}
	cmd := &cobra.Command{
		Use:         "doctor HOST[:PORT]",
		Short:       "Find out why a mount fails or is slow",
		Long:        doctorHelp,
		Example:     doctorExamples,
		Annotations: oneContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			host, port := withPort(args[0])
			if err := d.reach.check(cmd, net.JoinHostPort(host, port)); err != nil {
				return err
			}
			where, err := a.locate()
			if err != nil {
				return err
			}
			return d.run(cmd.Context(), host, port, !where.assumed)
		},
	}
	d.flags(cmd)
	cmd.Flags().StringVar(&d.export, "export", "", "path to mount (default: the first that the server lists)")
	cmd.Flags().Uint16Var(&d.mountPort, "mount-port", 0, "TCP port of the MOUNT program (default: from the server's rpcbind, else 20048)")
	return cmd
}

// withPort adds the default port.
func withPort(address string) (host, port string) {
	if host, port, err := net.SplitHostPort(address); err == nil {
		return host, port
	}
	return strings.Trim(address, "[]"), doctor.DefaultPort
}

// errUnhealthy makes the exit code 1; the report says why.
var errUnhealthy = errors.New("a mount would fail: see the FAILED checks")

func (d *doctorCommand) run(ctx context.Context, host, port string, daemon bool) error {
	cfg := &doctor.Config{
		Host: host, Port: port, Provider: d.provider, Program: d.wanted(), Export: d.export, MountPort: d.mountPort,
		Timeout: d.timeout, Machine: d.machine,
	}
	if daemon {
		cfg.Daemon = func(ctx context.Context, server netip.Addr) (*doctor.Daemon, error) { return d.ask(ctx, server, port) }
	}
	progress := output.NewProgress(d.stderr)
	cfg.Show = func(f doctor.Finding) { progress.Text(f.Name + ": " + string(f.Result)) }
	if d.format == output.FormatTable {
		cfg.Show = d.show
	}
	report, err := doctor.Run(ctx, cfg)
	progress.End()
	if err != nil {
		return interrupted(ctx, err)
	}
	if d.format != output.FormatTable {
		err = d.printer().Answer(report, nil)
	} else if report.Healthy && report.Mount != "" {
		err = d.printer().Note("\n%s", terminal.OneLine(report.Mount))
	}
	if err == nil && !report.Healthy {
		return errUnhealthy
	}
	return err
}

var resultColours = map[doctor.Result]output.Colour{doctor.OK: output.Green, doctor.Warning: output.Yellow, doctor.Failed: output.Red}

// show writes one finding; what to do is on a line of its own.
func (d *doctorCommand) show(f doctor.Finding) {
	name := output.Cell{Text: fmt.Sprintf("%-19s", f.Name)}
	result := output.Cell{Text: fmt.Sprintf("%-7s", f.Result), Colour: resultColours[f.Result]}
	_ = d.printer().Line(name, result, output.Cell{Text: terminal.OneLine(f.Reason)})
	if f.Remedy != "" {
		_ = d.printer().Note("%-30s→ %s", "", terminal.OneLine(f.Remedy))
	}
}

// serves ranks a listener's address by how well it fits the server's: both are the same, or it means all addresses of
// the family, or all, or it is another one.
func serves(listener, server netip.Addr) int {
	switch {
	case listener.WithZone("") == server.WithZone(""):
		return 3
	case listener.IsUnspecified() && listener.Is4() == server.Is4():
		return 2
	case listener == netip.IPv6Unspecified():
		return 1
	}
	return 0
}

// ask gets what the control plane knows about the listener on a port, the one for the server's address if there are several.
func (d *doctorCommand) ask(ctx context.Context, server netip.Addr, port string) (*doctor.Daemon, error) {
	out := new(doctor.Daemon)
	err := d.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		status, err := newAPI(conn).GetStatus(ctx, &rdmadv1.GetStatusRequest{})
		if err != nil {
			return err
		}
		out.Now = status.GetStarted().AsTime().Add(time.Duration(status.GetUptimeSeconds()) * time.Second)
		list, err := newAPI(conn).ListListeners(ctx, &rdmadv1.ListListenersRequest{})
		if err != nil {
			return err
		}
		best := -1
		for _, l := range list.GetListeners() {
			at, err := netip.ParseAddrPort(l.GetAddress())
			if fit := serves(at.Addr(), server); err == nil && fmt.Sprint(at.Port()) == port && fit > best {
				best, out.Listener = fit, l.GetName()
			}
		}
		if out.Listener == "" {
			return fmt.Errorf("rdmad at %s has no listener on port %s", d.addr, port)
		}
		return d.settings(ctx, conn, out)
	})
	if err != nil {
		return nil, errors.New(d.explain(err))
	}
	return out, nil
}

// settings adds the listener's settings and the advice for them.
func (d *doctorCommand) settings(ctx context.Context, conn *grpc.ClientConn, out *doctor.Daemon) error {
	scope := "listener/" + out.Listener
	now, err := newAPI(conn).GetSettings(ctx, &rdmadv1.GetSettingsRequest{Scope: scope})
	if err != nil {
		return err
	}
	out.Invalidates = now.GetSettings().GetRemoteInvalidation().GetUse()
	advice, err := newAPI(conn).AdviseSettings(ctx, &rdmadv1.AdviseSettingsRequest{Scope: scope})
	if err != nil {
		return err
	}
	for _, one := range advice.GetAdvice() {
		out.Advice = append(out.Advice, doctor.Advice{
			Command: "rdmactl " + strings.Join(append([]string{"settings", "set"}, one.GetAssignments()...), " ") + " --scope " + scope,
			Reason:  one.GetReason(),
		})
	}
	return nil
}

package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/rdmad/rdmad/cmd/rdmactl/internal/output"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

func newStatus(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Print the state of rdmad, and your role",
		Long: `Print the state of rdmad: health, connections, errors, the settings revision and
whether it waits for a confirmation, the verbs providers of the build, the
machine's RDMA devices, and your identity and role.`,
		Example: "  rdmactl status",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(cmd.Context(), a, api.GetStatus, &rdmadv1.GetStatusRequest{}, statusTable)
		},
	}
}

func statusTable(s *rdmadv1.GetStatusResponse) *output.Table {
	t := output.Pairs()
	t.Row("version", s.GetVersion())
	healthRow(t, s)
	t.Row("started", clock(s.GetStarted()))
	t.Row("uptime", (time.Duration(s.GetUptimeSeconds()) * time.Second).String())
	t.Row("settings revision", fmt.Sprint(s.GetRevision()))
	if r := s.GetUnconfirmedRevision(); r != 0 {
		format := "revision %d, rolled back at %s unless confirmed (rdmactl settings confirm)"
		if s.GetUnconfirmedByFleet() {
			format = "revision %d of the fleet, rolled back at %s unless the controller confirms it"
		}
		t.Cells(output.Cell{Text: "unconfirmed"}, output.Cell{Colour: output.Yellow, Text: fmt.Sprintf(format, r, clock(s.GetConfirmDeadline()))})
	}
	t.Row("listeners", fmt.Sprint(s.GetListeners()))
	t.Row("connections", fmt.Sprint(s.GetConnections()))
	t.Row("calls", output.Count(s.GetCalls()))
	t.Cells(output.Cell{Text: "errors"}, output.Cell{Text: output.Count(s.GetErrors()), Colour: either(s.GetErrors() > 0, output.Red, output.Plain)})
	memoryRows(t, s.GetMemory())
	descriptorRows(t, s.GetDescriptors())
	inventoryRows(t, s)
	if s.GetActor() != "" { // not from an older rdmad
		t.Row("you are", fmt.Sprintf("%s, role %s", s.GetActor(), role(s.GetRole())))
	}
	return t
}

// memoryRows shows the memory of the process. An older rdmad does not report it.
func memoryRows(t *output.Table, m *rdmadv1.Memory) {
	if m == nil {
		return
	}
	t.Row("memory", fmt.Sprintf("%s of %s (%s), at most %s so far", mebibytes(m.GetResident()), mebibytes(m.GetLimit()), m.GetLimitSource(), mebibytes(m.GetPeakResident())))
	t.Row("", fmt.Sprintf("mapped %s, Go runtime %s of %s, other %s", mebibytes(m.GetMapped()), mebibytes(m.GetGoRuntime()), mebibytes(m.GetGoLimit()), mebibytes(m.GetOther())))
	if m.GetWarning() != "" {
		t.Cells(output.Cell{}, output.Cell{Text: m.GetWarning(), Colour: output.Yellow})
	}
}

// mebibytes writes a number of bytes.
func mebibytes(n float64) string { return fmt.Sprintf("%.0f MiB", n/(1<<20)) }

// descriptorRows shows the descriptors of the process. An older rdmad does not
// report them.
func descriptorRows(t *output.Table, d *rdmadv1.Descriptors) {
	if d == nil {
		return
	}
	t.Row("descriptors", fmt.Sprintf("%d of %d open; for RDMA %d, TCP %d, files %d, control plane %d, metrics %d",
		d.GetOpen(), d.GetLimit(), d.GetRdma(), d.GetTcp(), d.GetFiles(), d.GetControl(), d.GetMetrics()))
	for _, p := range d.GetProblems() {
		t.Cells(output.Cell{}, output.Cell{Text: p, Colour: output.Yellow})
	}
}

// inventoryRows are the providers and devices.
func inventoryRows(t *output.Table, s *rdmadv1.GetStatusResponse) {
	for _, p := range s.GetProviders() {
		if p.GetBuiltIn() {
			t.Row("provider", p.GetName())
		} else {
			t.Row("provider", fmt.Sprintf("%s is not in this build (%s)", p.GetName(), p.GetNote()))
		}
	}
	for _, d := range s.GetDevices() {
		for _, p := range d.GetPorts() {
			text := strings.Join(append([]string{d.GetName(), d.GetTransport(), fmt.Sprintf("port %d", p.GetNumber()), p.GetState(), p.GetRate(), p.GetLinkLayer()},
				p.GetAddresses()...), " ")
			t.Cells(output.Cell{Text: "device"}, output.Cell{Text: text, Colour: either(p.GetState() == "ACTIVE", output.Plain, output.Yellow)})
		}
		if c := d.GetCapabilities(); c != nil {
			t.Row("", fmt.Sprintf("memory windows 2B %s, send with invalidate %s, RNR retry %s, open RDMA Read sinks %s; at most %d QP, %d CQ, %d MR, %d MW",
				onOff(c.GetMemoryWindows_2B()), onOff(c.GetSendWithInvalidate()), onOff(c.GetRnrRetry()),
				onOff(c.GetReadSinkRemoteWrite()), c.GetMaxQp(), c.GetMaxCq(), c.GetMaxMr(), c.GetMaxMw()))
		}
		if d.GetProblem() != "" {
			t.Cells(output.Cell{}, output.Cell{Text: d.GetProblem(), Colour: output.Red})
		}
	}
}

// role writes a role as the configuration does.
func role(r rdmadv1.Role) string {
	if r == rdmadv1.Role_ROLE_UNSPECIFIED {
		return "none"
	}
	return word(strings.TrimPrefix(r.String(), "ROLE_"))
}

// word writes an enum's value in small letters.
func word(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", " ")) }

// clock writes a time in local time, "" when there is none.
func clock(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	return t.AsTime().Local().Format(time.DateTime)
}

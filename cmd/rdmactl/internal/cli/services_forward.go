package cli

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/rdmad/rdmad/dataplane/spec"
	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
)

// forwardText is the parameters of a forward service as its flags say them.
func forwardText(f *rdmadv1.ForwardService) string {
	parts := []string{f.GetAddress()}
	for _, t := range []struct {
		name string
		time *durationpb.Duration
	}{
		{"dial-timeout", f.GetDialTimeout()},
		{"call-timeout", f.GetCallTimeout()},
		{"callback-timeout", f.GetCallbackTimeout()},
	} {
		if t.time != nil {
			parts = append(parts, t.name+"="+t.time.AsDuration().String())
		}
	}
	if f.GetReservedPort() {
		parts = append(parts, "reserved-port")
	}
	if n := f.GetMaxRecord(); n != 0 {
		parts = append(parts, "max-record="+strconv.FormatUint(uint64(n), 10))
	}
	return strings.Join(parts, " ")
}

func newServicesAddForward(a *app) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "forward NAME --address HOST:PORT",
		Short: "Add a service that forwards calls to a server on TCP",
		Long: `Forward calls to an ONC RPC server on TCP, such as an NFSv4 server. Each client
connection has one connection to the server. The service is back after a restart.
Add a listener to reach it over RPC-over-RDMA.`,
		Example: `  rdmactl services add forward filer --address 192.0.2.9:2049
  rdmactl services add forward filer --address 192.0.2.9:2049 --reserved-port --call-timeout 5m`,
	}
	forward := &rdmadv1.ForwardService{}
	specFlags(cmd, forward, spec.Of[spec.Forward]())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "address"); err != nil {
			return err
		}
		return a.addService(cmd.Context(), &rdmadv1.AddServiceRequest{Name: args[0], Kind: &rdmadv1.AddServiceRequest_Forward{Forward: forward}})
	}
	return cmd
}

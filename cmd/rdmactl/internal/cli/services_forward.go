package cli

import (
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

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
		Short: "Calls passed on to a server on TCP",
		Long: `Calls passed on to an ONC RPC server on TCP, such as NFSv4. Each connection of a
client has a connection to the server. It is back after a restart. A listener
makes it reachable over RPC-over-RDMA.`,
		Example: `  rdmactl services add forward filer --address 192.0.2.9:2049
  rdmactl services add forward filer --address 192.0.2.9:2049 --reserved-port --call-timeout 5m`,
		Args:              exactly("NAME"),
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	forward := &rdmadv1.ForwardService{}
	var dial, call, callback time.Duration
	f := cmd.Flags()
	f.StringVar(&forward.Address, "address", "", "host:port of the server")
	f.DurationVar(&dial, "dial-timeout", 0, "how long a client waits for its connection to the server; 0 for 5s")
	f.DurationVar(&call, "call-timeout", 0, "how long the server may take to answer a call; 0 for 2m")
	f.DurationVar(&callback, "callback-timeout", 0, "how long a client has to answer a call of the server; 0 for 30s")
	f.BoolVar(&forward.ReservedPort, "reserved-port", false, "connect from a port below 1024")
	f.Uint32Var(&forward.MaxRecord, "max-record", 0, "largest reply, in bytes; 0 for 4 MiB")
	must(cmd.RegisterFlagCompletionFunc("address", cobra.NoFileCompletions))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := needed(cmd, "address"); err != nil {
			return err
		}
		forward.DialTimeout, forward.CallTimeout, forward.CallbackTimeout = given(dial), given(call), given(callback)
		return a.addService(cmd.Context(), &rdmadv1.AddServiceRequest{Name: args[0], Kind: &rdmadv1.AddServiceRequest_Forward{Forward: forward}})
	}
	return cmd
}

// given leaves out a time that is the default.
func given(d time.Duration) *durationpb.Duration {
	if d == 0 {
		return nil
	}
	return durationpb.New(d)
}

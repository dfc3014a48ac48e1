//go:build rdmacore && cgo && rdmadevice

package rpcrdma_test

import (
	"flag"
	"testing"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
)

// The tests with the tag rdmadevice run over a device: interop runs them in the
// guest.
var (
	deviceFlag = flag.String("rdmacore.device", "", "device to test, the first one when empty")
	sinksFlag  = flag.Bool("rdmacore.sinks", false, "register what RDMA Reads are placed in as iWARP adapters need it")
)

func init() {
	flag.StringVar(&bedHost, "rdmacore.address", "", "IP address of the device")
	providers = []provider{{"rdmacore", newRdmacore}}
}

func newRdmacore(t testing.TB) rdmacm.Provider {
	p, err := rdmacore.New(rdmacore.Config{Tuning: tuning.Settings{Device: *deviceFlag, RegisterSinks: *sinksFlag}})
	must(t, err)
	return p
}

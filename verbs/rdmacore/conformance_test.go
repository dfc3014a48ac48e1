//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// Tests with the tag rdmadevice need a device: interop runs them in the guest.
var (
	deviceFlag      = flag.String("rdmacore.device", "", "device to test, the first one when empty")
	addressFlag     = flag.String("rdmacore.address", "", "IP address of the device")
	connectionsFlag = flag.Int("rdmacore.connections", 200, "connections of the test that opens many")
)

func newProvider(t testing.TB, c Config) *Provider {
	t.Helper()
	c.Device = *deviceFlag
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// target is the device, connected to itself.
func target(active, passive Config) verbstest.Target {
	return verbstest.Target{
		Listen:      *addressFlag + ":0",
		Connections: *connectionsFlag,
		NoTerminate: true,
		New: func(t testing.TB) (rdmacm.Provider, rdmacm.Provider) {
			return newProvider(t, active), newProvider(t, passive)
		},
	}
}

func TestConformance(t *testing.T) { verbstest.Run(t, target(Config{}, Config{})) }

//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"flag"
	"log/slog"
	"os"
	"testing"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/rdmacore/tuning"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// Tests with the tag rdmadevice need a device: interop runs them in the guest.
var (
	deviceFlag      = flag.String("rdmacore.device", "", "device to test, the first one when empty")
	addressFlag     = flag.String("rdmacore.address", "", "IP address of the device")
	connectionsFlag = flag.Int("rdmacore.connections", 100, "connections of the test that opens many")
)

func newProvider(t testing.TB, c Config) *Provider {
	t.Helper()
	c.Tuning.Device = *deviceFlag
	c.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	p, err := New(c)
	must(t, err)
	return p
}

// siwFaults are the tests that siw of Linux 6.1 fails.
var siwFaults = map[string]string{
	"Violations/Read/only the other right": "it answers RDMA Reads without looking at the region's rights (siw_check_sgl_tx)",
	"Violations/Read/no remote right":      "the same",
	"RevokeUnderFire/region closed":        "it finishes placing a message in memory that was deregistered meanwhile",
}

// rxeFaults are the tests that rxe of Linux 6.1 fails.
var rxeFaults = map[string]string{
	"Violations/Write/one byte beyond the window":    "it checks the bounds of the window's region, not of the window (check_rkey)",
	"Violations/Write/one byte before the window":    "the same",
	"Violations/Write/longer than the window":        "the same",
	"Violations/Read/one byte beyond the window":     "the same",
	"Violations/Read/one byte before the window":     "the same",
	"Violations/Read/longer than the window":         "the same",
	"RandomPrograms/windows":                         "the same",
	"BadSendInvalidate/window of another connection": "it does not look whose window a peer invalidates (rxe_check_invalidate_mw)",
	"RevokeUnderFire/window closed":                  "it finishes placing a packet through a window that was deallocated meanwhile",
	"RevokeUnderFire/window invalidated":             "the same with one that was invalidated (check_rkey lets the window go before the packet is placed)",
}

// target is the device, connected to itself.
func target(t *testing.T, active, passive Config) verbstest.Target {
	target := verbstest.Target{
		Listen:      *addressFlag + ":0",
		Connections: *connectionsFlag,
		NoTerminate: true,
		New: func(t testing.TB) (rdmacm.Provider, rdmacm.Provider) {
			return newProvider(t, active), newProvider(t, passive)
		},
	}
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	d := p.first
	target.MaxPrivateData, target.MaxReplyData, target.MaxRejectData = d.fits(requestData), d.fits(replyData), d.fits(rejectData)
	target.PadsPrivateData = !d.iwarp()
	switch {
	case d.is(vendorSIW):
		target.Faults = siwFaults
	case d.is(vendorRXE):
		target.Faults = rxeFaults
	}
	return target
}

func TestConformance(t *testing.T) { verbstest.Run(t, target(t, Config{}, Config{})) }

// TestConformanceBusyPoll runs the suite with busy polling on both sides.
func TestConformanceBusyPoll(t *testing.T) {
	c := Config{Tuning: tuning.Settings{BusyPoll: tuning.MaxBusyPoll / 100}}
	verbstest.Run(t, target(t, c, c))
}

// TestConformanceSinks runs the suite as on a device whose RDMA Reads need sinks that the
// peer may write to.
func TestConformanceSinks(t *testing.T) {
	c := Config{Tuning: tuning.Settings{RegisterSinks: true}}
	verbstest.Run(t, target(t, c, c))
}

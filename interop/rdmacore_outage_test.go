package interop

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

// rdmacoreDeviceTests are provider rdmacore's own tests that need a device, but
// for the conformance suite.
const rdmacoreDeviceTests = "^Test(Advice|Config|Tuning|IPv6|NoAllocations|BusyPollSleeps|PortDown|AddressGone|DeviceRemoved)"

// TestRdmacoreDevices takes devices, ports and addresses away from provider
// rdmacore and gives them back.
func TestRdmacoreDevices(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) {
			g := guest.Boot(t, guest.Options{})
			a.bring(t, g)
			buildRdmacore(t, g.ShareDir, "rdmacore.test", "test", "-c", "-tags", "rdmacore,rdmadevice", "../verbs/rdmacore")
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			got, err := g.Run(ctx, rdmacoreLimits+fmt.Sprintf(`cp /host/rdmacore.test /tmp && cd /tmp &&
for tests in '%s' '^TestMissing$'; do
	./rdmacore.test -test.v -test.timeout 2m -test.run "$tests" -rdmacore.device %s -rdmacore.address 10.0.2.15 || exit 1
done`, rdmacoreDeviceTests, a.name))
			if err != nil || got.Code != 0 {
				t.Errorf("code %d, error %v\n%s\n%s", got.Code, err, got.Stdout, got.Stderr)
			}
			t.Log(got.Stdout)
			nothingLeft(t, g)
		})
	}
}

package interop

import (
	"testing"

	"github.com/rdmad/rdmad/interop/guest/image"
)

// TestNewerKernel has the newer kernel's client and server do what those of the
// stock kernel do elsewhere: all of it with -long, else what differs between
// kernels and takes little time.
func TestNewerKernel(t *testing.T) {
	t.Run("client", func(t *testing.T) {
		gw := startGateway(t, image.Newer)
		r := startRdmad(t, gw.g.ShareDir)
		once, each := short, quick
		if *longFlag {
			once, each = matrix, matrix
		}
		t.Run("3", func(t *testing.T) { newMount(t, gw.g, r, overRDMA).do(t, "", once) })
		for _, version := range []string{"4.1", "4.2"} {
			t.Run(version, func(t *testing.T) { gw.testVersion(t, version, each) })
		}
		t.Run("churn", func(t *testing.T) { testChurn(t, gw.g, r) })
	})
	t.Run("server", func(t *testing.T) { testKnfsd(t, image.Newer) })
	if *longFlag {
		t.Run("both", func(t *testing.T) { testGatewayKnfsd(t, image.Newer) })
	}
}

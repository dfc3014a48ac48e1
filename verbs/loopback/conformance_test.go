package loopback

import (
	"net/netip"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs/rdmacm"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

func TestMain(m *testing.M) { verbstest.Main(m) }

var must, should = verbstest.Must, verbstest.Should

// two makes providers of two hosts on one fabric.
func two(c FabricConfig) func(testing.TB) (rdmacm.Provider, rdmacm.Provider) {
	return func(t testing.TB) (rdmacm.Provider, rdmacm.Provider) {
		f := NewFabric(c)
		a, b := New(Config{Fabric: f, Host: netip.MustParseAddr("127.0.0.2")}), New(Config{Fabric: f})
		t.Cleanup(func() {
			if n := a.dev.Tags.Len() + b.dev.Tags.Len(); n != 0 {
				t.Errorf("%d steering tags left", n)
			}
		})
		return a, b
	}
}

func TestConformanceIWARP(t *testing.T) {
	verbstest.Run(t, verbstest.Target{New: two(FabricConfig{})})
}

func TestConformanceInfiniBand(t *testing.T) {
	verbstest.Run(t, verbstest.Target{New: two(FabricConfig{Transport: InfiniBand})})
}

// With a delay everything waits in a queue at least once.
func TestConformanceDelay(t *testing.T) {
	verbstest.Run(t, verbstest.Target{New: two(FabricConfig{Delay: 10 * time.Microsecond})})
}

func TestConformanceDelayInfiniBand(t *testing.T) {
	verbstest.Run(t, verbstest.Target{New: two(FabricConfig{Transport: InfiniBand, Delay: 10 * time.Microsecond})})
}

// TestConformanceOneDevice is also on a device whose RDMA Reads want sinks that the
// peer may write to.
func TestConformanceOneDevice(t *testing.T) {
	verbstest.Run(t, verbstest.Target{New: func(testing.TB) (rdmacm.Provider, rdmacm.Provider) {
		p := New(Config{ReadSinkRemoteWrite: true})
		return p, p
	}})
}

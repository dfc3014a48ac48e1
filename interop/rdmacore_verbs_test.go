package interop

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rdmad/rdmad/interop/guest"
)

// rdmacoreSuiteTime bounds the conformance suite on one adapter, emulated.
const rdmacoreSuiteTime = 10 * time.Minute

// TestRdmacoreVerbs runs the conformance suite of the verbs on provider rdmacore
// and the kernel's software adapters.
func TestRdmacoreVerbs(t *testing.T) {
	for _, a := range adapters {
		t.Run(a.name, func(t *testing.T) { testRdmacoreVerbs(t, a) })
	}
}

func testRdmacoreVerbs(t *testing.T, a adapter) {
	g := guest.Boot(t, guest.Options{})
	a.bring(t, g)
	buildRdmacore(t, g.ShareDir, "rdmacore.test", "test", "-c", "-tags", "rdmacore,rdmadevice", "../verbs/rdmacore")
	ctx, cancel := context.WithTimeout(t.Context(), rdmacoreSuiteTime)
	defer cancel()
	flags := fmt.Sprintf("-test.v -rapid.checks 20 -rdmacore.connections 32 -rdmacore.device %s -rdmacore.address 10.0.2.15", a.name)
	got, err := g.Run(ctx, rdmacoreLimits+fmt.Sprintf(`cp /host/rdmacore.test /tmp && cd /tmp &&
./rdmacore.test -test.run '^TestConformance$|^TestThread' %[1]s &&
./rdmacore.test -test.run '^TestConformanceBusyPoll$/^(SendOrder|CQ.*|Disconnect|ConcurrentPosts)$' %[1]s`, flags))
	if err != nil || got.Code != 0 {
		t.Errorf("code %d, error %v\n%s\n%s", got.Code, err, got.Stdout, got.Stderr)
	}
	if n := strings.Count(got.Stdout, "--- PASS"); n < 60 {
		t.Errorf("%d tests passed, which can't be all", n)
	}
	nothingLeft(t, g)
}

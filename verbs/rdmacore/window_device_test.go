//go:build rdmacore && cgo && rdmadevice

package rdmacore

import (
	"errors"
	"testing"
	"time"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/verbstest"
)

// TestFlushedBind: a queue pair ends at once even if a bind that the device has executed is
// flushed. rxe waits 50 s for such a window before it destroys the queue pair. Adapters
// without windows report that they have none.
func TestFlushedBind(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	pair := verbstest.NewPair(t, p, p, verbstest.Options{Listen: *addressFlag + ":0"})
	defer pair.Close()
	a := pair.A
	if !p.first.Attrs.MemWindowType2B {
		if _, err := a.PD.AllocMW(); !errors.Is(err, verbs.ErrNotSupported) {
			t.Errorf("a window: %v", err)
		}
		return
	}
	// The Send waits for a Receive that does not come, and the bind for the Send.
	a.Post(
		verbs.SendWR{ID: 1, Op: verbs.OpSend, Flags: verbs.SendSignaled},
		verbs.SendWR{ID: 2, Op: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: verbs.BindInfo{
			MW: a.Window(), MR: a.MR, Length: 4096, Access: verbs.AccessRemoteRead,
		}},
	)
	closed := make(chan error, 1)
	go func() {
		a.QP.Fail()
		closed <- a.QP.Close()
	}()
	limit := time.NewTimer(verbstest.Patience)
	defer limit.Stop()
	select {
	case err := <-closed:
		if err != nil {
			t.Error(err)
		}
	case <-limit.C:
		t.Fatal("the device does not let the queue pair go")
	}
}

// TestLibraryWithoutWindows: a device whose driver in libibverbs makes no windows has none,
// also if the kernel's driver announces them.
func TestLibraryWithoutWindows(t *testing.T) {
	p := newProvider(t, Config{})
	defer verbstest.CloseProvider(t, p)
	has, without, err := p.first.ctx.windows()
	must(t, err)
	if has != p.first.is(vendorRXE) {
		t.Errorf("windows of %s: %t", p.first.Attrs.Name, has)
	}
	if without {
		t.Error("windows that nobody can make")
	}
}

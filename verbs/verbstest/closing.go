package verbstest

import (
	"errors"

	"github.com/rdmad/rdmad/verbs"
)

// No object can be closed while another uses it.
func testCloseOrder(e *env) {
	p := e.pair(Options{})
	dev := p.A.ID.Device()
	busy := func(what string, close func() error) {
		e.Helper()
		if err := close(); !errors.Is(err, verbs.ErrBusy) {
			e.Errorf("close of %s: %v", what, err)
		}
	}
	busy("a PD with a queue pair and a region", p.A.PD.Close)
	busy("a send CQ with a queue pair", p.A.SendCQ.Close)
	busy("a receive CQ with a queue pair", p.A.RecvCQ.Close)
	busy("the active provider", e.active.Close)
	busy("the passive provider", e.passive.Close)
	p.Exchange(1)

	pd, err := dev.AllocPD()
	Must(e, err)
	mr, err := pd.RegMR(make([]byte, 10), AllAccess)
	Must(e, err)
	busy("a PD with a region", pd.Close)
	Must(e, mr.Close())
	if e.windows() {
		mw, err := pd.AllocMW()
		Must(e, err)
		busy("a PD with a window", pd.Close)
		Must(e, mw.Close())
	}
	Must(e, pd.Close())
}

// Arguments of the objects are checked.
func testBadObjects(e *env) {
	pd, err := e.passive.Device().AllocPD()
	Must(e, err)
	defer func() { Must(e, pd.Close()) }()
	if _, err := pd.RegMR(make([]byte, 10), verbs.AccessRemoteWrite); !errors.Is(err, verbs.ErrInvalid) {
		e.Errorf("remote write without local write: %v", err)
	}
	for _, depth := range []int{0, -1, e.attr.MaxCQE + 1} {
		if _, err := e.passive.Device().CreateCQ(depth); err == nil {
			e.Errorf("CQ of %d", depth)
		}
	}
	if !e.windows() {
		if _, err := pd.AllocMW(); !errors.Is(err, verbs.ErrNotSupported) {
			e.Errorf("window on a device without: %v", err)
		}
	}
}

// Keys are not zero, differ, and don't follow one another.
func testKeys(e *env) {
	pd, err := e.passive.Device().AllocPD()
	Must(e, err)
	buf := make([]byte, 64)
	seen := map[uint32]bool{0: true}
	var all []verbs.MR
	steps := map[uint32]int{}
	last := uint32(0)
	for range 200 {
		mr, err := pd.RegMR(buf, AllAccess)
		Must(e, err)
		all = append(all, mr)
		if seen[mr.RKey()] {
			e.Fatalf("key %#x is zero or was given twice", mr.RKey())
		}
		seen[mr.RKey()] = true
		steps[mr.RKey()-last]++
		last = mr.RKey()
	}
	for step, n := range steps {
		if n > 20 {
			e.Errorf("%d of 200 keys are %#x after the one before", n, step)
		}
	}
	for _, mr := range all {
		Must(e, mr.Close())
	}
	Must(e, pd.Close())
}

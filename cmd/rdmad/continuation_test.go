package main

import (
	"slices"
	"strings"
	"testing"

	rdmadv1 "github.com/rdmad/rdmad/proto/rdmad/v1"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// extensions.continuation is turned on and off on a connection that is up. The change is
// announced to the peer, calls and replies of 6 KiB take two Sends or RDMA from then on, and
// connections list shows it.
func TestContinuationOnAStandingConnection(t *testing.T) {
	r := newRig(t)
	p := r.start()
	o := r.operator(p)
	yes := true
	two := func(continued bool) *rdmadv1.Settings {
		return &rdmadv1.Settings{Extensions: &rdmadv1.ExtensionsSettings{V2: &yes, Characteristics: &yes, Xmit: &continued, Continuation: &continued}}
	}
	if res := o.change(two(false), 0); len(res.GetEffects()) != 0 {
		t.Fatalf("%v", res)
	}
	c := r.dialWith(p.addresses["echo"], func(s *rpcrdma.Settings) {
		s.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics | rpcrdma.ExtXmit | rpcrdma.ExtContinuation
	}, false)
	call := func(n int) {
		t.Helper()
		must(t, c.Call(t.Context(), echoCall(make([]byte, n))))
	}
	call(1)
	for _, on := range []bool{false, true, false, true} {
		o.apply(two(on))
		for (c.Info().Characteristics.Peer.RTR&rpcrdma2.RTRContinue != 0) != on { // until we are told
			call(1)
		}
		before := c.Stats()
		call(6 << 10)
		after := c.Stats()
		sends, windows := uint64(1), uint64(2)
		if on {
			sends, windows = 2, 0
		}
		if after.Receives != before.Receives+sends || after.Registrations != before.Registrations+windows {
			t.Errorf("on %t: %d receives, %d registrations", on, after.Receives-before.Receives, after.Registrations-before.Registrations)
		}
		if up := listed(t, o, c); slices.Contains(up.GetExtensions(), "continuation") != on || slices.Contains(up.GetExtensions(), "xmit") != on || up.GetErrors() != 0 {
			t.Errorf("on %t: the connection is %v", on, up)
		}
	}
	// What it is built on can't go alone.
	_, err := o.settings.SetSettings(t.Context(), &rdmadv1.SetSettingsRequest{Settings: &rdmadv1.Settings{Extensions: &rdmadv1.ExtensionsSettings{Xmit: new(bool)}}})
	if err == nil || !strings.Contains(err.Error(), "extensions.continuation on (global) needs extensions.xmit") {
		t.Errorf("%v", err)
	}
}

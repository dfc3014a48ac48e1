package dataplane

import (
	"testing"

	"github.com/rdmad/rdmad/dataplane/echo"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// TestReceiveSizeOnTheConnection: inline.receive_size is APPLIED, up and down, on
// the connection of a client with characteristics, which then makes Sends of that
// size; on that of a client of version 1 it waits for the next one.
func TestReceiveSizeOnTheConnection(t *testing.T) {
	tuned := func(size uint32) func(*rpcrdma.Settings) {
		return func(s *rpcrdma.Settings) {
			s.Extensions |= rpcrdma.ExtV2 | rpcrdma.ExtCharacteristics
			s.InlineReceiveSize = size
		}
	}
	p := newPlane(t, Config{Resolver: resolver(tuned(4096))})
	addr := p.listen("a", echo.New())
	p.Start()
	two := rpcrdma.DefaultSettings()
	tuned(4096)(&two)
	two.InlineSendMax = 65536
	c, up := p.dial(addr, &two)
	old, older := p.dial(addr, nil)
	for _, client := range []*rpcrdma.Client{c, old} {
		if err := null(t.Context(), client); err != nil {
			t.Fatal(err)
		}
	}
	for _, size := range []uint32{16384, 4096, 8192} {
		effects := p.applied(everything(resolver(tuned(size)), settings.InlineReceiveSize))
		if len(effects) != 2 || effects[0].ConnID != up.ID || effects[0].Outcome != settings.Applied || effects[0].Reason == "" {
			t.Fatalf("%d bytes: %+v", size, effects)
		}
		waits := settings.PendingReconnect
		if size == 4096 { // as it was
			waits = settings.Applied
		}
		if effects[1].ConnID != older.ID || effects[1].Outcome != waits {
			t.Errorf("%d bytes, version 1: %+v", size, effects[1])
		}
		known := func() bool { // to both: a client keeps to less before it is answered
			i, err := p.Connection(up.ID)
			if err != nil {
				t.Fatal(err)
			}
			return c.Info().InlineSend == size && i.InlineReceive == size && i.Characteristics.Own.ReceiveSize == size
		}
		for !known() {
			if err := null(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

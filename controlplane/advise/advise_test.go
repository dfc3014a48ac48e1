package advise

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// peer is a connection with defaults whose messages have these sizes.
func peer(calls, replies map[int]uint64) dataplane.ConnInfo {
	c := dataplane.ConnInfo{Settings: new(rpcrdma.DefaultSettings())}
	c.InlineSend, c.InlineReceive, c.PeerReceive, c.PeerReceiveSize, c.PeerSendSize = 4096, 4096, 4096, 4096, 4096
	c.CreditsGranted = 64
	for bucket, n := range calls {
		c.Sizes.Calls[bucket] = n
		c.Stats.Calls += n
		if bucket > 12 {
			c.Stats.RDMAReads += n
		}
	}
	for bucket, n := range replies {
		c.Sizes.Replies[bucket] = n
		if bucket > 12 {
			c.Stats.RDMAWrites += n
		}
	}
	return c
}

func TestNothingToAdvise(t *testing.T) {
	for name, c := range map[string]dataplane.ConnInfo{
		"idle":  peer(nil, nil),
		"small": peer(map[int]uint64{7: 1000}, map[int]uint64{7: 1000}),
		"large replies, but the peer receives 4096": peer(map[int]uint64{7: 1000}, map[int]uint64{13: 1000}),
		"large calls, but the peer sends 4096":      peer(map[int]uint64{13: 1000}, map[int]uint64{7: 1000}),
		"huge": func() dataplane.ConnInfo {
			c := peer(map[int]uint64{21: 1000}, map[int]uint64{21: 1000})
			c.PeerReceiveSize, c.PeerSendSize = 256<<10, 256<<10
			return c
		}(),
		"rare": func() dataplane.ConnInfo {
			c := peer(map[int]uint64{7: 1000, 13: 9}, map[int]uint64{7: 1000, 13: 9})
			c.PeerReceiveSize, c.PeerSendSize = 256<<10, 256<<10
			return c
		}(),
		"of a connector": func() dataplane.ConnInfo {
			c := peer(map[int]uint64{13: 1000}, map[int]uint64{13: 1000})
			c.PeerReceiveSize, c.PeerSendSize = 256<<10, 256<<10
			c.Client = netip.MustParseAddrPort("192.0.2.1:700")
			return c
		}(),
	} {
		if got := For([]dataplane.ConnInfo{c}); len(got) != 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := For(nil); len(got) != 0 {
		t.Errorf("no connections: %+v", got)
	}
}

func TestLongReplies(t *testing.T) {
	c := peer(map[int]uint64{7: 1000}, map[int]uint64{7: 500, 13: 460, 15: 40})
	c.PeerReceiveSize = 256 << 10
	other := peer(map[int]uint64{7: 10}, map[int]uint64{7: 10})
	got := For([]dataplane.ConnInfo{c, other})
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	a := got[0]
	// Those up to 8191 bytes are nearly all; the few larger ones don't make
	// it worth 32 KiB.
	if a.Key != settings.InlineSendMax || a.Value != 9*1024 || a.Messages != 460 || a.Operations != 460 || a.Registrations != 460 ||
		a.AtOnce {
		t.Errorf("%+v", a)
	}
	if want := "460 replies (46% of calls) travelled by RDMA Write and would fit a Send of 9216 bytes, which their peers receive; with a smaller ddp.min_chunk, their data would still go by RDMA Write"; a.MinChunk != a.Value || a.Reason() != want {
		t.Errorf("%d, %s", a.MinChunk, a.Reason())
	}
	c.Settings.DDPMinChunk = 1 << 20
	if a := For([]dataplane.ConnInfo{c, other})[0]; a.MinChunk != 0 || strings.Contains(a.Reason(), "min_chunk") {
		t.Errorf("%+v: %s", a, a.Reason())
	}
}

// TestOneMinChunk: where two changes need ddp.min_chunk, both have the same value of it.
func TestOneMinChunk(t *testing.T) {
	small := peer(map[int]uint64{7: 1000}, map[int]uint64{11: 1000})
	small.Settings.DDPMinChunk, small.Stats.RDMAWrites = 512, 1000
	large := peer(map[int]uint64{7: 1000}, map[int]uint64{13: 1000})
	large.PeerReceiveSize = 256 << 10
	got := For([]dataplane.ConnInfo{small, large})
	if len(got) != 2 || got[0].Key != settings.InlineSendMax || got[0].MinChunk != 9*1024 || got[1].Key != settings.DDPMinChunk || got[1].Value != 9*1024 {
		t.Errorf("%+v", got)
	}
	other := peer(map[int]uint64{7: 1000}, nil)
	other.Settings.DDPMinChunk = 64 << 10 // is lowered for nobody
	got = For([]dataplane.ConnInfo{small, large, other})
	if len(got) != 2 || got[0].MinChunk != 64<<10 || got[1].Value != 64<<10 {
		t.Errorf("with a larger one: %+v", got)
	}
}

// TestLoweredLimit: a limit lowered below what the peer was told can rise at
// once, and saves no registrations, as the peer registers for nothing then.
func TestLoweredLimit(t *testing.T) {
	c := peer(map[int]uint64{7: 1000}, map[int]uint64{11: 1000})
	c.InlineSend, c.PeerReceive, c.PeerReceiveSize = 1024, 8192, 8192
	c.Stats.RDMAWrites = 1000
	got := For([]dataplane.ConnInfo{c})
	if len(got) != 1 || got[0].Key != settings.InlineSendMax || got[0].Value != 3*1024 || !got[0].AtOnce || got[0].Registrations != 0 {
		t.Errorf("%+v", got)
	}
}

func TestLongCalls(t *testing.T) {
	c := peer(map[int]uint64{14: 1000}, map[int]uint64{7: 1000})
	c.PeerSendSize = 64 << 10
	got := For([]dataplane.ConnInfo{c})
	if len(got) != 1 {
		t.Fatalf("%+v", got)
	}
	a := got[0]
	if a.Key != settings.InlineReceiveSize || a.Value != 17*1024 || a.Operations != 1000 || a.Registrations != 1000 || a.AtOnce ||
		a.Memory != (17*1024-4096)*64 {
		t.Errorf("%+v", a)
	}
	if !strings.Contains(a.Reason(), "1000 calls (100%)") {
		t.Error(a.Reason())
	}
}

func TestSmallChunks(t *testing.T) {
	c := peer(map[int]uint64{7: 1000}, map[int]uint64{11: 300, 12: 100})
	c.Settings.DDPMinChunk = 512
	c.Stats.RDMAWrites = 390
	c.InlineSend, c.PeerReceive = 8192, 8192
	got := For([]dataplane.ConnInfo{c})
	if len(got) != 1 || got[0].Key != settings.DDPMinChunk || got[0].Messages != 390 || !got[0].AtOnce || got[0].Value != 8192 {
		t.Errorf("%+v", got)
	}
}

func TestMostUsefulFirst(t *testing.T) {
	c := peer(map[int]uint64{13: 700, 7: 300}, map[int]uint64{13: 900, 7: 100})
	c.PeerReceiveSize, c.PeerSendSize = 256<<10, 256<<10
	got := For([]dataplane.ConnInfo{c})
	if len(got) != 2 || got[0].Key != settings.InlineSendMax || got[1].Key != settings.InlineReceiveSize {
		t.Errorf("%+v", got)
	}
}

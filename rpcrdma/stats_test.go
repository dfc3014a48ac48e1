package rpcrdma_test

import (
	"context"
	"errors"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/verbs/rdmacm"
)

// counted are the statistics that follow from the protocol alone, whatever the
// provider.
type counted struct {
	sends, readChunks, writeChunks, replyChunks uint64
	longCalls, callsRead, peerReads, peerWrites uint64
	offered, placed, roundTrips                 uint64
}

func countedOf(s *rpcrdma.Stats) counted {
	return counted{
		s.Sends, s.ReadChunks, s.WriteChunks, s.ReplyChunks,
		s.LongCalls, s.CallsRead, s.PeerReads, s.PeerWrites,
		s.OfferedBytes, s.PlacedBytes, s.RoundTrips,
	}
}

// minus is what was counted since before.
func (c counted) minus(b counted) counted {
	return counted{
		c.sends - b.sends, c.readChunks - b.readChunks, c.writeChunks - b.writeChunks, c.replyChunks - b.replyChunks,
		c.longCalls - b.longCalls, c.callsRead - b.callsRead, c.peerReads - b.peerReads, c.peerWrites - b.peerWrites,
		c.offered - b.offered, c.placed - b.placed, c.roundTrips - b.roundTrips,
	}
}

// TestStatsOfShapes makes one call of each shape; both sides count it alike.
func TestStatsOfShapes(t *testing.T) {
	shapes := []struct {
		name string
		call func(context.Context, *rpcrdma.Client) error
		want counted
	}{
		{"inline", func(ctx context.Context, c *rpcrdma.Client) error { return echo(ctx, c, 1000, 1) }, counted{roundTrips: 1, sends: 1}},
		{
			"long call and long reply",
			func(ctx context.Context, c *rpcrdma.Client) error { return echo(ctx, c, 10000, 1) },
			// The reply is a header of 24 bytes, the length word and the data.
			counted{roundTrips: 2, sends: 1, readChunks: 1, replyChunks: 1, longCalls: 1, callsRead: 1, peerReads: 1, peerWrites: 1, offered: 10028, placed: 10028},
		},
		{
			"read chunk",
			func(ctx context.Context, c *rpcrdma.Client) error { return writeOut(ctx, c, 8192, 1) },
			counted{roundTrips: 2, sends: 1, readChunks: 1, callsRead: 1, peerReads: 1},
		},
		{
			"write chunk",
			func(ctx context.Context, c *rpcrdma.Client) error { return readBack(ctx, c, procRead, 8192, 8192, 1) },
			counted{roundTrips: 1, sends: 1, writeChunks: 1, peerWrites: 1, offered: 8192, placed: 8192},
		},
		{
			"write chunk that is not filled",
			func(ctx context.Context, c *rpcrdma.Client) error { return readBack(ctx, c, procRead, 0, 8192, 1) },
			counted{roundTrips: 1, sends: 1, writeChunks: 1, offered: 8192},
		},
	}
	eachProvider(t, func(t *testing.T, p rdmacm.Provider) {
		b := newBed(t, p, bedConfig{})
		c, srv := b.dial(nil)
		for _, shape := range shapes {
			cs, ss := c.Stats(), srv.Stats()
			client, server := countedOf(&cs), countedOf(&ss)
			if err := shape.call(b.ctx, c); err != nil {
				t.Fatalf("%s: %v", shape.name, err)
			}
			cs, ss = c.Stats(), srv.Stats()
			if got := countedOf(&cs).minus(client); got != shape.want {
				t.Errorf("%s: the client counts %+v, want %+v", shape.name, got, shape.want)
			}
			want := shape.want // the responder knows the rest first-hand
			want.callsRead, want.peerReads, want.peerWrites = 0, 0, 0
			if got := countedOf(&ss).minus(server); got != want {
				t.Errorf("%s: the server counts %+v, want %+v", shape.name, got, want)
			}
		}
		if cs, ss := c.Sizes(), srv.Sizes(); cs != ss || cs.Calls == (rpcrdma.SizeCounts{}) || cs.Replies == (rpcrdma.SizeCounts{}) {
			t.Errorf("the client counts sizes %v, the server %v", cs, ss)
		}
		cs := c.Stats()
		if cs.InFlightSum != cs.Sends || cs.BacklogSum != 0 || cs.WindowsOrphaned != 0 {
			t.Errorf("one call at a time: %+v", cs)
		}
		if (cs.CallsFenced == 0) != (cs.LocalInvalidations == 0) {
			t.Errorf("local invalidations: %+v", cs)
		}
		if i := c.Info(); i.LastActive.Before(i.Since) || i.ConnectTime <= 0 || srv.Info().ConnectTime <= 0 {
			t.Errorf("times: %+v, %+v", i, srv.Info())
		}
	})
}

func TestStatsOfFailures(t *testing.T) {
	b := newBed(t, providers[0].make(t), bedConfig{})
	c, _ := b.dial(nil)
	call := newCall(procNull)
	call.MaxReply = -1
	if err := c.Call(b.ctx, &call); err == nil {
		t.Error("a call that contradicts itself was made")
	}
	call.MaxReply = conn.MaxMessage
	if err := c.Call(b.ctx, &call); !errors.Is(err, conn.ErrCallTooLong) {
		t.Errorf("a reply that may be too long: %v", err)
	}
	if s := c.Stats(); s.FailedMarshal != 2 || s.Calls != 0 {
		t.Errorf("%+v", s)
	}
}

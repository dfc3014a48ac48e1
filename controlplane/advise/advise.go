// Package advise computes, from the sizes of past messages, which thresholds would have saved
// RDMA operations and registrations.
//
// It counts only messages that certainly gain: those that were longer than a limit, went in
// chunks, and would have fitted a higher limit that the peer accepts. Sizes are known by powers
// of two, and a bucket counts when all of it fits. The package gives no advice that would have
// saved less than a hundredth of the calls.
package advise

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rdmad/rdmad/dataplane"
	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// Room is the size of an inline message beside its RPC message, in bytes: the transport header,
// with the chunks that a client offers because it cannot know that it won't need them.
const Room = 256

// worthwhile is the part of all calls that a change must save work for.
const worthwhile = 0.01

// Advice is a change that would have saved work.
type Advice struct {
	// Key is inline.send_max, inline.receive_size or ddp.min_chunk.
	Key           settings.Key
	Value         uint32  // new value, in bytes
	MinChunk      uint32  // new value of ddp.min_chunk, without which there is no gain; 0: it may stay
	Messages      uint64  // that would have gone inline
	Operations    uint64  // RDMA Reads and Writes saved
	Registrations uint64  // of the peers' memory saved
	Memory        uint64  // more of receive buffers, in bytes
	AtOnce        bool    // no connection has to be made again
	Part          float64 // of all calls, 0..1
}

// Reason is a sentence that explains the advice.
func (a *Advice) Reason() string {
	switch a.Key {
	case settings.InlineSendMax:
		reason := fmt.Sprintf("%d replies (%.0f%% of calls) travelled by RDMA Write and would fit a Send of %d bytes, which their peers receive",
			a.Messages, 100*a.Part, a.Value)
		if a.MinChunk > 0 {
			reason += "; with a smaller ddp.min_chunk, their data would still go by RDMA Write"
		}
		return reason
	case settings.InlineReceiveSize:
		return fmt.Sprintf("%d calls (%.0f%%) were fetched by RDMA Read and would fit a Send of %d bytes, which their peers make",
			a.Messages, 100*a.Part, a.Value)
	}
	return fmt.Sprintf("%d replies (%.0f%% of calls) fit a Send but were as large as ddp.min_chunk and went by RDMA Write",
		a.Messages, 100*a.Part)
}

// For returns the changes that would have saved work on some connections, the most useful
// first. It ignores connections of connectors, whose calls go the other way.
func For(conns []dataplane.ConnInfo) []Advice {
	conns = slices.DeleteFunc(slices.Clone(conns), func(c dataplane.ConnInfo) bool { return c.Client.IsValid() })
	var calls uint64
	for i := range conns {
		calls += conns[i].Stats.Calls
	}
	var out []Advice
	var chunk, largest uint32 // of ddp.min_chunk: what is advised, and in force
	for i := range conns {
		if s := conns[i].Settings; s != nil {
			largest = max(largest, s.DDPMinChunk)
		}
	}
	for _, find := range []func([]dataplane.ConnInfo) Advice{longReplies, longCalls, smallChunks} {
		a := find(conns)
		if a.Messages == 0 || float64(a.Messages) < worthwhile*float64(calls) {
			continue
		}
		a.Part = float64(a.Messages) / float64(calls)
		if a.MinChunk > 0 { // advice lowers it for nobody
			chunk = max(chunk, a.MinChunk, largest)
		}
		if a.Key == settings.DDPMinChunk {
			chunk = max(chunk, a.Value, largest)
			a.Value = chunk
		}
		out = append(out, a)
	}
	for i := range out { // one value of ddp.min_chunk serves all
		if out[i].MinChunk > 0 {
			out[i].MinChunk = chunk
		}
	}
	slices.SortStableFunc(out, func(a, b Advice) int { return cmp.Compare(b.Operations, a.Operations) })
	return out
}

// smallest is the least size in a bucket.
func smallest(bucket int) uint64 { return 1 << bucket >> 1 }

// step is a limit that would let a bucket of sizes go inline.
func step(bucket int) uint32 {
	largest := uint32(1)<<bucket - 1
	return (largest + Room + 1023) / 1024 * 1024
}

// steps are all limits worth trying: those of whole buckets.
func steps(yield func(uint32) bool) {
	for bucket := range rpcrdma.SizeBuckets {
		if s := step(bucket); s >= settings.InlineMin && s <= settings.InlineMax && !yield(s) {
			return
		}
	}
}

// newlyInline counts messages too large for limit before and small enough
// for it after.
func newlyInline(sizes *rpcrdma.SizeCounts, before, after uint32) (n uint64) {
	for bucket, count := range sizes {
		if smallest(bucket)+minRoom > uint64(before) && step(bucket) <= after {
			n += count
		}
	}
	return n
}

// minRoom is the least that a transport header takes, in bytes.
const minRoom = 28

// gain is how many messages of a connection a setting's value would have let
// go inline.
type gain func(c *dataplane.ConnInfo, value uint32) uint64

func (g gain) sum(conns []dataplane.ConnInfo, value uint32) (n uint64) {
	for i := range conns {
		n += g(&conns[i], value)
	}
	return n
}

// choose tries a setting's values and keeps the smallest that gets nearly all
// that the largest would.
func (g gain) choose(conns []dataplane.ConnInfo) (value uint32, messages uint64) {
	var most uint64
	for s := range steps {
		most = max(most, g.sum(conns, s))
	}
	if most == 0 {
		return 0, 0
	}
	for s := range steps {
		if n := g.sum(conns, s); n*10 >= most*9 {
			return s, n
		}
	}
	return 0, 0
}

// longReplies finds replies that a larger inline.send_max would let go
// inline. Their write or reply chunks cost an RDMA Write and the peer a
// registration.
func longReplies(conns []dataplane.ConnInfo) Advice {
	a := Advice{Key: settings.InlineSendMax, AtOnce: true}
	replies := gain(func(c *dataplane.ConnInfo, value uint32) uint64 {
		n := newlyInline(&c.Sizes.Replies, c.InlineSend, min(value, c.PeerReceiveSize))
		return min(n, c.Stats.RDMAWrites)
	})
	a.Value, a.Messages = replies.choose(conns)
	for i := range conns {
		// The peer registers for the size announced at connect: a limit within
		// that size saves only the operation.
		c := &conns[i]
		n := replies(c, a.Value)
		if n > 0 && min(a.Value, c.PeerReceiveSize) > c.PeerReceive {
			a.AtOnce = false
			a.Registrations += n
		}
		if n > 0 && c.Settings != nil && c.Settings.DDPMinChunk < a.Value {
			a.MinChunk = a.Value
		}
	}
	a.Operations = a.Messages
	return a
}

// longCalls finds calls that a larger inline.receive_size would let come
// inline. Their read chunks cost an RDMA Read and the peer a registration.
func longCalls(conns []dataplane.ConnInfo) Advice {
	a := Advice{Key: settings.InlineReceiveSize}
	calls := gain(func(c *dataplane.ConnInfo, value uint32) uint64 {
		n := newlyInline(&c.Sizes.Calls, c.InlineReceive, min(value, c.PeerSendSize))
		return min(n, c.Stats.RDMAReads)
	})
	a.Value, a.Messages = calls.choose(conns)
	for i := range conns {
		c := &conns[i]
		if c.Settings != nil && a.Value > c.Settings.InlineReceiveSize {
			a.Memory += uint64(a.Value-c.Settings.InlineReceiveSize) * uint64(c.CreditsGranted)
		}
	}
	a.Operations, a.Registrations = a.Messages, a.Messages
	return a
}

// smallChunks finds replies that went by RDMA Write although they fit a
// Send, because ddp.min_chunk said so. The peer had registered already.
func smallChunks(conns []dataplane.ConnInfo) Advice {
	a := Advice{Key: settings.DDPMinChunk, AtOnce: true}
	for i := range conns {
		c := &conns[i]
		if c.Settings == nil {
			continue
		}
		var n uint64
		for bucket, count := range c.Sizes.Replies {
			if smallest(bucket) >= uint64(c.Settings.DDPMinChunk)+minRoom && step(bucket) <= c.InlineSend {
				n += count
			}
		}
		if n = min(n, c.Stats.RDMAWrites); n > 0 {
			a.Messages += n
			a.Value = max(a.Value, c.InlineSend)
		}
	}
	a.Operations = a.Messages
	return a
}

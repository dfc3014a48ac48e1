package conn

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// genCall is a call of any shape.
func genCall(t *rapid.T) *pairCall {
	k := &pairCall{out: &Outgoing{StreamLen: 40 + 4*rapid.SampledFrom([]int{0, 10, 900, 1500}).Draw(t, "stream")}}
	for range rapid.IntRange(0, 2).Draw(t, "items") {
		k.out.Items = append(k.out.Items, chunk.Item{Pos: 40, Len: rapid.SampledFrom([]int{0, 3, 1000, 5001, 300000}).Draw(t, "item")})
	}
	k.reply = 24 + 4*rapid.SampledFrom([]int{0, 5, 900, 1100, 70000}).Draw(t, "reply")
	for range rapid.IntRange(0, 2).Draw(t, "results") {
		k.results = append(k.results, rapid.SampledFrom([]int{0, 1, 999, 4097, 300001}).Draw(t, "result"))
	}
	k.short = rapid.IntRange(0, 2).Draw(t, "short") == 0
	return k
}

func genSettings(t *rapid.T) settings.Settings {
	s := settings.Default()
	s.CreditsMax = uint32(rapid.IntRange(1, 20).Draw(t, "credits"))
	s.CreditsPolicy = settings.Policy(rapid.IntRange(0, 1).Draw(t, "policy"))
	s.DDPMinChunk = uint32(rapid.SampledFrom([]int{0, 1000, 4096, 1 << 20}).Draw(t, "min"))
	if rapid.IntRange(0, 4).Draw(t, "reads") > 0 {
		s.Extensions |= settings.ExtReadReplies
	}
	switch rapid.IntRange(0, 5).Draw(t, "version 2") {
	case 0, 1:
	case 2:
		s.Extensions |= settings.ExtV2
	case 3:
		s.Extensions |= settings.ExtV2 | settings.ExtXmit
	default:
		s.Extensions |= settings.ExtV2 | settings.ExtXmit | settings.ExtContinuation
	}
	return s
}

// TestAnyOrderEndsTheSame: whatever the order in which RDMA operations,
// services and Sends complete, the same calls end in the same state.
func TestAnyOrderEndsTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		client, server := genSettings(t), genSettings(t)
		server.CreditsPolicy = settings.CreditsFixed // adaptive grants follow the load
		n := rapid.IntRange(1, 12).Draw(t, "calls")
		in, any := newPair(t, client, server), newPair(t, client, server)
		for range n {
			k := genCall(t)
			same := &pairCall{out: &Outgoing{StreamLen: k.out.StreamLen, Items: slices.Clone(k.out.Items)}, reply: k.reply, results: k.results, short: k.short}
			in.call(k)
			any.call(same)
		}
		in.finish(first)
		any.finish(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") })
		if a, b := in.state(), any.state(); a != b {
			t.Fatalf("in order  %+v\notherwise %+v", a, b)
		}
	})
}

// TestCreditsModel: over random schedules of calls, grants, cancellations,
// settings, replies to be read and losses nobody sends more than was granted, no
// message finds no receive, every call ends once, and nothing stays exposed.
func TestCreditsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t, genSettings(t), genSettings(t))
		for range rapid.IntRange(0, 150).Draw(t, "steps") {
			switch rapid.IntRange(0, 19).Draw(t, "what") {
			case 0, 1, 2, 3, 4:
				p.call(genCall(t))
			case 5:
				if open := p.open(); len(open) > 0 {
					k := open[rapid.IntRange(0, len(open)-1).Draw(t, "cancel")]
					k.canceled = true
					p.client(p.c.Cancel(k.out, nil))
				}
			case 6:
				p.settings[0] = genSettings(t)
				s := p.settings[0]
				p.client(p.c.SetSettings(&s, nil))
			case 7:
				p.settings[1] = genSettings(t)
				s := p.settings[1]
				p.server(p.s.SetSettings(&s, nil))
			case 8:
				p.shortBy = rapid.IntRange(0, 10).Draw(t, "short")
			case 10:
				p.reclaim(t)
			case 9:
				if rapid.IntRange(0, 3).Draw(t, "cut") == 0 {
					p.cut()
				}
			default:
				if all := p.steps(); len(all) > 0 {
					all[rapid.IntRange(0, len(all)-1).Draw(t, "next")]()
				}
			}
			p.checkCredits()
		}
		p.finish(func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") })
	})
}

// open are the calls that are with the requester.
func (p *pair) open() (all []*pairCall) {
	for _, k := range p.calls {
		if k.begun {
			all = append(all, k)
		}
	}
	return all
}

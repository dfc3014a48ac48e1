package conn

import (
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma/chunk"
	"github.com/rdmad/rdmad/rpcrdma/conn/characteristics"
	"github.com/rdmad/rdmad/rpcrdma/settings"
)

// genCharacteristics are settings of ends that speak version 2 and mostly have
// characteristics.
func genCharacteristics(t *rapid.T) settings.Settings {
	s := settings.Default()
	s.CreditsMax = uint32(rapid.SampledFrom([]int{1, 4, 64}).Draw(t, "credits"))
	s.DDPMinChunk = uint32(rapid.SampledFrom([]int{4096, 1 << 20}).Draw(t, "min"))
	sizes := []uint32{1024, 4096, 8192, 12288, 65536}
	s.InlineSendMax = rapid.SampledFrom(sizes).Draw(t, "send")
	s.InlineReceiveSize = rapid.SampledFrom(sizes).Draw(t, "receive")
	s.RemoteInvalidationAccept = rapid.Bool().Draw(t, "accept")
	s.Extensions |= settings.ExtV2
	if rapid.IntRange(0, 7).Draw(t, "characteristics") > 0 {
		s.Extensions |= settings.ExtCharacteristics
		if rapid.Bool().Draw(t, "xmit") {
			s.Extensions |= settings.ExtXmit | settings.ExtContinuation
			if rapid.Bool().Draw(t, "send_ddp") {
				s.Extensions |= settings.ExtSendDDP
			}
		}
	}
	return s
}

// genSized is a call whose messages are about as long as receives are.
func genSized(t *rapid.T) *pairCall {
	n := func(label string) int {
		return rapid.SampledFrom([]int{0, 900, 3900, 4096, 8000, 12000, 60000}).Draw(t, label)
	}
	k := &pairCall{out: &Outgoing{StreamLen: 40 + n("stream")}, reply: 24 + n("reply")}
	if rapid.Bool().Draw(t, "item") {
		k.out.Items = []chunk.Item{{Pos: 40, Len: n("item")}}
	}
	if rapid.Bool().Draw(t, "result") {
		k.results = []int{n("result")}
	}
	return k
}

// change gives an end new settings.
func (p *pair) change(who int, s settings.Settings) {
	if p.settings[who] = s; who == 0 {
		p.client(p.c.SetSettings(&s, nil))
	} else {
		p.server(p.s.SetSettings(&s, nil))
	}
	p.grown()
}

// TestSizesModel: over random interleavings of settings that change, calls,
// up to 64 in flight, memory that is scarce and messages on their way, nobody
// makes a Send that is larger than any receive that it may land in, both ways.
// When it is over and both ends have the extension, receives are as large as
// the settings want, and each end knows the other's.
func TestSizesModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := newPair(t, genCharacteristics(t), genCharacteristics(t))
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			switch rapid.IntRange(0, 14).Draw(t, "what") {
			case 0:
				for range rapid.SampledFrom([]int{1, 5, 20, 64}).Draw(t, "calls") {
					p.call(genSized(t))
				}
			case 1:
				p.change(0, genCharacteristics(t))
			case 2:
				p.change(1, genCharacteristics(t))
			case 3:
				p.shortBy = rapid.IntRange(0, 3).Draw(t, "short")
			case 4:
				if open := p.open(); len(open) > 0 {
					k := open[rapid.IntRange(0, len(open)-1).Draw(t, "cancel")]
					k.canceled = true
					p.client(p.c.Cancel(k.out, nil))
				}
			default:
				if all := p.steps(); len(all) > 0 {
					all[rapid.IntRange(0, len(all)-1).Draw(t, "next")]()
				}
			}
			p.checkCredits()
		}
		p.shortBy = 0
		random := func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "next") }
		p.finish(random)
		p.settle(t, random)
	})
}

// settle turns the extension on at both ends, and checks where that leads to.
func (p *pair) settle(t *rapid.T, choose func(n int) int) {
	for who := range p.settings {
		s := genCharacteristics(t)
		s.Extensions |= settings.ExtCharacteristics
		p.change(who, s)
	}
	p.call(&pairCall{out: &Outgoing{StreamLen: 40}, reply: 24})
	p.finish(choose)
	for range 2 { // those that were short of memory are asked about again
		p.resized(0)
		p.resized(1)
		p.finish(choose)
	}
	if p.c.chars.Peer == characteristics.Unsupported {
		return // the responder had it off when it was asked
	}
	c, s := p.c.Characteristics(), p.s.Characteristics()
	if !c.Spoken || !s.Spoken || !reflect.DeepEqual(c.Own, s.Peer) || !reflect.DeepEqual(s.Own, c.Peer) {
		t.Fatalf("the requester has %+v, the responder %+v", c, s)
	}
	for who, own := range []Characteristics{c, s} {
		if want := p.settings[who].Receives(); own.Own.ReceiveSize != want || p.sizes[who].size != int(want) || p.sizes[who].below() > 0 {
			t.Fatalf("%d: receives of %d bytes, %d wanted; %+v", who, own.Own.ReceiveSize, want, p.sizes[who])
		}
	}
	if c.Own.Invalidation != p.settings[0].RemoteInvalidationAccept {
		t.Fatalf("the requester tells %+v", c.Own)
	}
}

package rpcrdma_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/rdmad/rdmad/rpcrdma"
	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
	"github.com/rdmad/rdmad/verbs/loopback"
)

// Calls to a peer that may say anything at any time. Each ends by its deadline,
// with success or an error that says why; time stands still while anything runs,
// so that a goroutine that makes no progress never lets the deadline come.

// boundaryWords are the values of characteristics that are numbers.
var boundaryWords = map[rpcrdma2.CharID][]uint32{
	rpcrdma2.CharReceiveSize:    {0, 1, 1023, 1024, 1025, 4095, 4096, 4097, 8192, 262143, 262144, 262145, 1<<32 - 1},
	rpcrdma2.CharInvalidation:   {0, 1, 2},
	rpcrdma2.CharBackward:       {0, 1, 2, 3},
	rpcrdma2.CharRTR:            {0, 1, 2, 3, 4, 5, 6, 7, 8, 1<<32 - 1},
	rpcrdma2.CharRequestReceive: {0, 1, 2, 7, 8, 9, 1<<32 - 1},
	rpcrdma2.CharResponseSend:   {0, 1, 2, 7, 8, 9, 1<<32 - 1},
}

// boundaryBuffers are structures of receives: of nothing, as ours, too long, of
// segments without bytes, of far too many.
var boundaryBuffers = []rpcrdma2.Buffer{
	{},
	{Length: 8192, Groups: []rpcrdma2.BufferGroup{{Count: 1, Length: 4096}, {Count: 1, Length: 4096, Align: 4096, Flags: 1}}},
	{Length: 1<<32 - 1, Groups: []rpcrdma2.BufferGroup{{Count: 1, Length: 1<<32 - 1, Flags: 1}}},
	{Length: 0, Groups: []rpcrdma2.BufferGroup{{Count: 1<<32 - 1, Flags: 1}}},
	{Length: 4096, Groups: []rpcrdma2.BufferGroup{{Count: 4096, Length: 1, Flags: 1}}},
}

// boundaryCredits are grants and requests.
var boundaryCredits = []uint32{0, 1, 2, 3, 7, 8, 9, 31, 32, 33, 1024, 1<<32 - 1}

// boundaryValues lists a characteristic at each of its boundaries, the default as
// no bytes and data that is cut short.
func boundaryValues(id rpcrdma2.CharID) (all rpcrdma2.Set) {
	all = rpcrdma2.Set{{ID: id}, {ID: id, Data: []byte{0}}}
	for _, n := range boundaryWords[id] {
		all = append(all, rpcrdma2.Characteristic{ID: id, Data: xdr.AppendUint32(nil, n)})
	}
	if id == rpcrdma2.CharReceiveBuffer {
		for _, b := range boundaryBuffers {
			all = append(all, rpcrdma2.Characteristic{ID: id, Data: b.Append(nil)})
		}
	}
	return all
}

// transmitting are characteristics of a peer that takes and makes groups.
func transmitting() rpcrdma2.Set {
	v := rpcrdma2.DefaultValues()
	v.RTR = rpcrdma2.RTRRequest | rpcrdma2.RTRResponse | rpcrdma2.RTRContinue
	v.RequestReceive, v.ResponseSend = 8, 8
	return rpcrdma2.Set{v.Encode(rpcrdma2.CharRTR), v.Encode(rpcrdma2.CharRequestReceive), v.Encode(rpcrdma2.CharResponseSend)}
}

// with replaces a characteristic of a set.
func with(set rpcrdma2.Set, c rpcrdma2.Characteristic) (out rpcrdma2.Set) {
	for _, is := range set {
		if is.ID != c.ID {
			out = append(out, is)
		}
	}
	return append(out, c)
}

// boundaryCall is a call of ours, in bytes: arguments, an item among them, the
// largest reply and a result.
type boundaryCall struct{ args, item, reply, result int }

func (k boundaryCall) call() *rpcrdma.Call {
	c := newCall(procNull)
	c.Args, c.MaxReply = make([]byte, k.args), k.reply
	if k.item > 0 {
		c.Args = xdr.AppendUint32(c.Args, uint32(k.item))
		c.Items = []oncrpc.ReplyItem{{Pos: len(c.Args), Len: k.item, Buf: make(heapBuffer, k.item)}}
	}
	if k.result > 0 {
		c.Results = []rpcrdma.Result{{Buf: make(heapBuffer, k.result+3), Max: k.result}}
	}
	return &c
}

// boundaryCalls are short and long in each of their parts.
var boundaryCalls = []boundaryCall{
	{}, {args: 6000}, {reply: 6000}, {args: 20000, reply: 60000}, {item: 1}, {item: 9000}, {result: 1}, {result: 9000},
	{args: 3980}, {args: 4024}, {args: 4028}, {args: 4032}, {item: 9000, result: 9000, reply: 9000}, {args: 100000},
}

// boundary is a script of a peer, and what we do meanwhile.
type boundary struct {
	client   bool // the peer is
	well     bool // it answers each call as it should
	script   anyScript
	calls    []boundaryCall
	settings []rpcrdma.Settings // the first is for the connection, the others follow
}

// boundarySettings are ours.
func boundarySettings(send, receive, credits, backchannel uint32, ext rpcrdma.Extensions) rpcrdma.Settings {
	s := rpcrdma.DefaultSettings()
	speakingWith(ext)(&s)
	backward(backchannel)(&s)
	s.InlineSendMax, s.InlineReceiveSize, s.CreditsMax = send, receive, credits
	return s
}

const allOfVersion2 = continuation | rpcrdma.ExtSendDDP

// run makes the calls at once.
func (b *boundary) run(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer := &anyPeer{client: b.client, script: &b.script, ended: make(chan struct{})}
		p := loopback.New(loopback.Config{})
		var to caller
		var set func(*rpcrdma.Settings)
		var stats func() rpcrdma.Stats
		if b.client {
			bed := newBed(t, p, bedConfig{unjudged: !b.lawful(), settings: func(s *rpcrdma.Settings) { *s = b.settings[0] }})
			peer.raw = bed.dialRaw(kernelPrivateData)
			conn := <-bed.conns
			conn.OpenBackchannel()
			to, set, stats = conn, conn.SetSettings, conn.Stats
			defer func() { conn.Close(); <-peer.ended }()
		} else {
			l := newLiarJudged(t, p, b.lawful(), kernelPrivateData, rpcrdma.DialConfig{Settings: &b.settings[0], Handler: service{}}, func(*liar) {})
			peer.raw = l.raw
			to, set, stats = l.c, l.c.SetSettings, l.c.Stats
			defer func() { l.c.Close(); <-peer.ended }()
		}
		go peer.run()
		b.make(t, to, set)
		synctest.Wait()
		// Each call goes out twice at most, in eight transmissions. All else
		// answers the peer, or tells it of ours.
		if n := int(stats().Sends); n > 16*len(b.calls)+4*peer.said+8*len(b.settings)+8 {
			t.Errorf("%d Sends for %d calls and %d messages of the peer: %s", n, len(b.calls), peer.said, b)
		}
	})
}

// lawful says whether the referee can judge our end: it takes what a peer tells
// for what holds, though receives may have less than 4096 bytes in no text
// (version two §2.3), wrong data is refused, and a structure of 4 GiB leaves open
// how long a Send may be.
func (b *boundary) lawful() bool {
	doubtful := func(c rpcrdma2.Characteristic) bool {
		switch {
		case len(c.Data) == 0:
			return false
		case c.ID == rpcrdma2.CharReceiveSize:
			return len(c.Data) != 4 || binary.BigEndian.Uint32(c.Data) < 4096
		}
		return c.ID == rpcrdma2.CharReceiveBuffer
	}
	return b.well && !slices.ContainsFunc(b.script.start, doubtful) && !slices.ContainsFunc(b.script.turns, func(t anyTurn) bool {
		return slices.ContainsFunc(t.before, doubtful) || slices.ContainsFunc(t.after, doubtful)
	})
}

func (b *boundary) make(t *testing.T, to caller, set func(*rpcrdma.Settings)) {
	const deadline = 10 * time.Second
	var wg sync.WaitGroup
	for _, k := range b.calls {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), deadline)
			defer cancel()
			began := time.Now()
			err := to.Call(ctx, k.call())
			if after := time.Since(began); after > deadline || !b.expects(err) {
				t.Errorf("%+v ends after %v with %v: %s", k, after, err, b)
			}
		})
	}
	for i := range b.settings[1:] {
		time.Sleep(time.Millisecond)
		set(&b.settings[1+i])
	}
	wg.Wait()
}

func (b *boundary) String() string {
	text := fmt.Sprintf("client %v, calls %+v, ", b.client, b.calls)
	for _, s := range b.settings {
		text += fmt.Sprintf("send %d receive %d credits %d backchannel %d extensions %v, ", s.InlineSendMax, s.InlineReceiveSize, s.CreditsMax, s.CreditsBackchannel, s.Extensions)
	}
	return text + b.script.String()
}

// expects says whether a call may end with err: one to a peer that answers as it
// should with success, unless it is long and goes to a client. Else err tells what
// happened.
func (b *boundary) expects(err error) bool {
	if b.well {
		return err == nil || (b.client && (errors.Is(err, rpcrdma.ErrCallTooLong) || errors.Is(err, rpcrdma.ErrNoBackchannel)))
	}
	for _, is := range []error{
		context.DeadlineExceeded, rpcrdma.ErrBadReply, rpcrdma.ErrCallTooLong, rpcrdma.ErrNoBackchannel, rpcrdma.ErrClosed,
	} {
		if errors.Is(err, is) {
			return true
		}
	}
	end, refused := (*rpcrdma.Error)(nil), (*rpcrdma.PeerError)(nil)
	return err == nil || errors.As(err, &end) || errors.As(err, &refused)
}

// TestBoundaries goes through ways to begin, each characteristic at each boundary, told by INIT,
// or by UPDATE before or after the answer to a call, of either end, and through
// credits.
func TestBoundaries(t *testing.T) {
	settings := []rpcrdma.Settings{boundarySettings(8192, 8192, 32, 8, allOfVersion2)}
	both := func(script anyScript) {
		for _, client := range []bool{false, true} {
			b := boundary{client: client, well: true, script: script, calls: boundaryCalls, settings: settings}
			b.run(t)
		}
	}
	well := anyTurn{credits: 32}
	for _, g := range []greeting{greetsWell, greetsItself, greetsLater, greetsRefused} {
		both(anyScript{greeting: g, start: transmitting(), nochange: rpcrdma2.Subset{7}, turns: []anyTurn{well}})
	}
	for id := rpcrdma2.CharReceiveSize; id <= rpcrdma2.CharResponseSend; id++ {
		for _, c := range boundaryValues(id) {
			told := rpcrdma2.Set{c}
			both(anyScript{start: with(transmitting(), c), turns: []anyTurn{well}})
			both(anyScript{start: transmitting(), turns: []anyTurn{
				{credits: 32, before: told}, {credits: 32, after: transmitting()}, {credits: 32, after: told}, {credits: 32, before: transmitting()},
			}})
		}
	}
	for _, n := range boundaryCredits {
		both(anyScript{start: transmitting(), turns: []anyTurn{{credits: n, calls: true}}})
		both(anyScript{start: transmitting(), turns: []anyTurn{{credits: n, calls: true}, well}})
	}
}

// TestBoundariesTogether draws all of it at random: what the peer tells, when and
// how, what it answers, credits, sizes, and settings of ours that change meanwhile.
func TestBoundariesTogether(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := drawBoundary(rt)
		b.run(t)
	})
}

func drawBoundary(t *rapid.T) *boundary {
	set := func(name string, most int) (s rpcrdma2.Set) {
		for range rapid.IntRange(0, most).Draw(t, name) {
			id := rapid.Custom(func(t *rapid.T) rpcrdma2.CharID { return rpcrdma2.CharID(rapid.IntRange(1, 7).Draw(t, "id")) }).Draw(t, name)
			s = append(s, rapid.SampledFrom(boundaryValues(id)).Draw(t, name))
		}
		return s
	}
	number := func(name string, of ...uint32) uint32 { return rapid.SampledFrom(of).Draw(t, name) }
	b := &boundary{client: rapid.Bool().Draw(t, "the peer is the client")}
	s := &b.script
	s.greeting = greeting(rapid.IntRange(0, int(greetings)-1).Draw(t, "greeting"))
	if s.start = set("start", 3); rapid.Bool().Draw(t, "takes groups") {
		for _, c := range transmitting() {
			if !s.start.Has(c.ID) {
				s.start = append(s.start, c)
			}
		}
	}
	if stay := number("stay", 0, 1, 2, 7, 1<<32-1); stay != 0 {
		s.nochange = rpcrdma2.Subset{stay}
	}
	for range rapid.IntRange(1, 4).Draw(t, "turns") {
		s.turns = append(s.turns, anyTurn{
			before: set("before", 2), after: set("after", 2),
			does:    doing(max(rapid.IntRange(-3, int(doings)-1).Draw(t, "does"), 0)),
			credits: rapid.SampledFrom(boundaryCredits).Draw(t, "credits"),
			calls:   rapid.Bool().Draw(t, "calls"),
		})
	}
	b.calls = rapid.SliceOfN(rapid.SampledFrom(boundaryCalls), 1, 12).Draw(t, "sizes")
	ext := []rpcrdma.Extensions{allOfVersion2, continuation, rpcrdma.ExtCharacteristics, allOfVersion2}
	for range rapid.IntRange(1, 3).Draw(t, "settings") {
		b.settings = append(b.settings, boundarySettings(
			number("send", 1024, 4096, 8192), number("receive", 1024, 4096, 8192), number("credits", 1, 2, 32), number("backchannel", 1, 2, 8),
			rapid.SampledFrom(ext).Draw(t, "extensions")))
	}
	return b
}

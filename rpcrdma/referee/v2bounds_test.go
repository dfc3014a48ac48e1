package referee

import (
	"strings"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

func TestHistory(t *testing.T) {
	var h history[int]
	for i := range maxHistory + 8 {
		h.say(uint64(10*i), i)
	}
	is := func(n int) func(int) bool { return func(v int) bool { return v == n } }
	last := maxHistory + 7
	for _, c := range []struct {
		since uint64
		value int
		want  bool
	}{
		{uint64(10 * last), last, true},
		{uint64(10 * last), last - 1, false},
		{uint64(10*last - 1), last - 1, true},
		{uint64(10*last - 1), last - 2, false},
		{80, -1, false},
		{79, -1, true}, // a dropped value may be the one
		{0, -1, true},
	} {
		if got := h.any(c.since, is(c.value)); got != c.want {
			t.Errorf("%d since %d: %v", c.value, c.since, got)
		}
	}
	if h.forget(uint64(10*last - 15)); len(h.said) != 3 || h.last() != last {
		t.Errorf("%d left, the last is %d", len(h.said), h.last())
	}
	if len(h.said) > maxHistory {
		t.Errorf("%d kept", len(h.said))
	}
}

func TestLayout(t *testing.T) {
	group := func(count, length, flags uint32) goxdr.Xmrbs_group {
		return goxdr.Xmrbs_group{Xmrgrp_count: count, Xmrgrp_info: goxdr.Xmrbs_seg{Xmrseg_length: length, Xmrseg_flags: flags}}
	}
	l := newLayout(&goxdr.Xmrbs_buf{Xmrbuf_groups: []goxdr.Xmrbs_group{group(2, 100, 0), group(2, 1000, 1), group(1, 50, 0), group(1, 10, 3)}})
	if want := []target{{200, 1000}, {1200, 1000}, {2250, 10}}; len(l.targets) != 3 || l.targets[0] != want[0] || l.targets[1] != want[1] || l.targets[2] != want[2] || l.size != 2260 {
		t.Fatalf("%+v", l)
	}
	parts, why := l.parts(900, []uint32{1, 2, 3}, 120)
	if want := []part{{0, 2100, 2200}, {0, 2250, 2260}, {1, 200, 210}}; why != "" || len(parts) != 3 || parts[0] != want[0] || parts[1] != want[1] || parts[2] != want[2] {
		t.Errorf("%v %s", parts, why)
	}
	if _, why := l.parts(900, []uint32{1, 2, 3}, 1111); why == "" {
		t.Error("1111 bytes fit in 1110")
	}
	for _, huge := range []goxdr.Xmrbs_group{group(1<<32-1, 1, 1), group(maxTargets+1, 1, 1), group(1<<31, 1<<31, 0)} {
		if newLayout(&goxdr.Xmrbs_buf{Xmrbuf_groups: []goxdr.Xmrbs_group{huge, huge}}) != nil {
			t.Errorf("%+v is kept", huge)
		}
	}
}

// TestBounds2 plays peers that make a Referee keep too much. The Referee gives
// up and is silent from then on.
func TestBounds2(t *testing.T) {
	var many []goxdr.Xmddp_rsditem
	for range 5000 {
		many = append(many, direct(goxdr.XMDTYPE_TBSN, 0, 0))
	}
	for _, c := range []struct {
		name string
		play func(b *bed, i int)
	}{
		{"directions", func(b *bed, i int) {
			b.send(Client, request2{count: 1, directions: []goxdr.Xmddp_rsdset{over(0, 40, many...)}}.bytes(i))
		}},
		{"REQUESTs", func(b *bed, i int) { b.send(Client, op2(i, 32, callDir, requestOf(char(99)))) }},
		{"header", func(b *bed, i int) {
			b.send(Client, option2(i, 32, callDir, 99, make([]byte, maxHeader), nil))
		}},
		{"operations without an answer", func(b *bed, i int) { b.send(Client, option2(i, 32, callDir, 99, nil, nil)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, FromAnywhere)
			for i := 0; i <= maxCalls && b.r.GivenUp() == ""; i++ {
				c.play(b, i)
			}
			if b.r.GivenUp() == "" {
				t.Fatal("not given up")
			}
			before := len(b.got)
			b.send(Client, []byte("what?"))
			if len(b.got) != before {
				t.Error("it goes on")
			}
		})
	}
}

// mostMemory2 is the most memory that a Referee keeps for version 2, in bytes,
// in addition to the calls of all versions (docs/referee.md).
const mostMemory2 = 12 << 20

// TestMemory2 fills the version 2 state to its bounds.
func TestMemory2(t *testing.T) {
	before := heap()
	r := New(Config{})
	send := func(from Side, data []byte) {
		r.Observe(&Event{Kind: Send, From: from, Data: data, Length: len(data)})
	}
	pages := char(charStructure, 64*maxTargets, 1, maxTargets, 64, 4, 1)
	var many []goxdr.Xmddp_rsditem
	for range 3000 {
		many = append(many, direct(goxdr.XMDTYPE_TBSN, 0, 0))
	}
	var items []goxdr.Xmddp_mitem
	for i := range 2000 {
		items = append(items, tbsn(4*i, 4, 4*i, 0, 1, 2))
	}
	want := make([]goxdr.Xcharval, maxWant)
	for i := range want {
		want[i] = char(99+i, make([]byte, 40))
	}
	for _, s := range []Side{Client, Server} {
		for i := range 2 * maxRecent {
			send(s, op2(i, 32, callDir, updateOf(pages, char(charRequests, i))))
		}
		for i := range maxDirections / 2 / len(many) {
			send(s, request2{count: 1, directions: []goxdr.Xmddp_rsdset{over(0, 40, many...)}}.bytes(i))
		}
		for i := range maxRequests / 2 {
			send(s, op2(1<<20+i, 32, callDir, requestOf(want...)))
		}
		send(s, op2(1<<21, 32, callDir, request2{count: 9, items: items}.body(maxPrefix/2), make([]byte, maxPrefix/2)))
		send(s, cont(1<<21, callDir, 1, opXmtReq, maxPrefix, make([]byte, maxPrefix)))
	}
	took := heap() - before
	t.Logf("%d bytes, %s", took, r.GivenUp())
	if r.GivenUp() != "" || r.v2.side(Client).group == nil || r.v2.requests != maxRequests || r.v2.directions < maxDirections-2*len(many) {
		t.Errorf("not full: %s, %d REQUESTs, %d directions", r.GivenUp(), r.v2.requests, r.v2.directions)
	}
	if took > mostMemory2 {
		t.Errorf("%d bytes, want %d at most", took, mostMemory2)
	}
}

// TestAnsweredIsForgotten makes more calls than the Referee keeps and answers
// each. Nothing may remain of them.
func TestAnsweredIsForgotten(t *testing.T) {
	b := connected(t)
	b.told2(append(able[:3:3], char(charSize, 9216), structure(2)), able)
	for i := range 3000 {
		b.send(Client, request2{count: 1, directions: []goxdr.Xmddp_rsdset{over(0, 40, direct(goxdr.XMDTYPE_EXRW, 0, 0, seg{i, 64, 0}))}}.bytes(i))
		if i%2 == 0 {
			b.send(Server, response(i, item(0, 0, goxdr.XMDTYPE_NOITEM)))
		} else {
			b.send(Server, v2(i, 32, msg, replyDir, lists{writes: [][]seg{{{i, 0, 0}}}}, rpcReplyBytes(i)))
		}
		b.send(Client, op2(i, 32, callDir, requestOf(char(99))))
		b.send(Server, op2(i, 32, replyDir, respondOf(0, 1)))
		b.send(Client, op2(i, 32, callDir, updateOf(char(charRequests, i))))
	}
	v := &b.r.v2
	if len(b.got) > 0 || b.r.GivenUp() != "" || v.directions != 0 || v.requests != 0 || b.r.memory.count != 0 {
		t.Errorf("%v %s, %d directions, %d REQUESTs, %d segments", b.got, b.r.GivenUp(), v.directions, v.requests, b.r.memory.count)
	}
	if n := len(v.side(Client).traits.said); n > maxHistory {
		t.Errorf("%d sets of characteristics are kept", n)
	}
}

// TestNames2 checks the names of messages in reports.
func TestNames2(t *testing.T) {
	for want, h := range map[string]*header2{
		"RDMA2_NOMSG": {message: &message{proc: procNomsg}}, "XMTREQ": {message: &message{proc: procOptional}, op: opXmtReq},
		"operation 99": {message: &message{proc: procOptional}, op: 99},
	} {
		if got := h.name(); !strings.EqualFold(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

package ulb_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/nfs"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

func TestCompoundPlan(t *testing.T) {
	var p ulb.Plan
	c := compound(5, write("first"), read(100), symlink("a/b"), readlink(), read(200))
	must(t, p.Call(registry, c))
	head := 12
	wantItems := []ulb.Item{{Pos: head + 36, Len: 5}, {Pos: head + 36 + 8 + 32 + 12, Len: 3}}
	if !slices.Equal(p.Items, wantItems) {
		t.Errorf("items %+v, want %+v", p.Items, wantItems)
	}
	at := head + len(write("first"))
	first := xdr.Span{Begin: at, End: at + len(read(100))}
	at = first.End + len(symlink("a/b"))
	wantResults := []ulb.Result{
		{Max: 100, Pos: -1, Asked: first},
		{Max: 4096, Path: true, Pos: -1, Asked: xdr.Span{Begin: at, End: at + 4}},
		{Max: 200, Pos: -1, Asked: xdr.Span{Begin: at + 4, End: len(c.Args.Stream)}},
	}
	if !slices.Equal(p.Results, wantResults) {
		t.Errorf("results %+v, want %+v", p.Results, wantResults)
	}
	wrote := enc(38, 0, 5, 2, 0, 0)
	made := enc(6, 0, 1, 0, 1, 0, 2, 0)
	body := results(0, 5, wrote, didRead("hello"), made, didReadlink("target"), didRead(""))
	must(t, p.Reply(&oncrpc.Payload{Stream: body}))
	at = 12 + len(wrote)
	wantResults[0].Pos, wantResults[0].Len = at+16, 5
	at += 24 + len(made)
	wantResults[1].Pos, wantResults[1].Len = at+12, 6
	wantResults[2].Pos, wantResults[2].Len = len(body), 0
	if !slices.Equal(p.Results, wantResults) {
		t.Errorf("results %+v, want %+v", p.Results, wantResults)
	}
	if len(body)-8-8 > p.MaxReply {
		t.Errorf("estimate %d, reply without items %d", p.MaxReply, len(body)-16)
	}
}

// TestFailedReadLeavesItsPlaceEmpty: an error ends a COMPOUND; what was asked
// for from there on has no place.
func TestFailedReadLeavesItsPlaceEmpty(t *testing.T) {
	var p ulb.Plan
	must(t, p.Call(registry, compound(3, read(10), read(20), read(30))))
	body := results(5, 2, didRead("ten bytes!"), 25, 5)
	must(t, p.Reply(&oncrpc.Payload{Stream: body}))
	want := []ulb.Result{
		{Max: 10, Pos: 28, Len: 10, Asked: xdr.Span{Begin: 12, End: 44}},
		{Max: 20, Pos: -1, Asked: xdr.Span{Begin: 44, End: 76}}, {Max: 30, Pos: -1, Asked: xdr.Span{Begin: 76, End: 108}},
	}
	if !slices.Equal(p.Results, want) {
		t.Errorf("results %+v, want %+v", p.Results, want)
	}
	// a failure in the middle does not shift what comes after it
	body = results(0, 3, 25, 5, didRead("x"), 25, 5)
	must(t, p.Reply(&oncrpc.Payload{Stream: body}))
	if p.Results[0].Pos != -1 || p.Results[1].Len != 1 || p.Results[2].Pos != -1 {
		t.Errorf("results %+v", p.Results)
	}
}

// TestWhatAsks: the operation of a result has its place in the XDR stream of the
// arguments, wherever the items of other operations are.
func TestWhatAsks(t *testing.T) {
	stream := compound(3, read(10), write("data in place"), read(20)).Args.Stream
	second := xdr.Span{Begin: len(stream) - len(read(20)), End: len(stream)}
	apart := compound(3, read(10), write("data in place"), read(20))
	at := 12 + len(read(10)) + 36
	apart.Args.Items = []oncrpc.Item{{Pos: at, Data: []byte("data in place")}}
	apart.Args.Stream = slices.Concat(stream[:at], stream[at+16:])
	for name, tc := range map[string]struct {
		call *oncrpc.Call
		err  error
		want []xdr.Span
	}{
		"in the stream":    {compound(3, read(10), write("data in place"), read(20)), nil, []xdr.Span{{Begin: 12, End: 44}, second}},
		"apart":            {apart, nil, []xdr.Span{{Begin: 12, End: 44}, second}},
		"not known to end": {compound(2, read(10), enc(4711)), ulb.ErrUnknown, []xdr.Span{{Begin: 12, End: 44}}},
		"cut short":        {compound(3, read(10), read(20)), ulb.ErrMalformed, []xdr.Span{{Begin: 12, End: 44}, {Begin: 44, End: 76}}},
		"one operation":    {call(3, 6, "handle", 0, 0, 100), nil, []xdr.Span{{}}},
	} {
		var p ulb.Plan
		if err := p.Call(registry, tc.call); !errors.Is(err, tc.err) {
			t.Errorf("%s: %v", name, err)
		}
		var got []xdr.Span
		for i := range p.Results {
			got = append(got, p.Results[i].Asked)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestBadReplies(t *testing.T) {
	ask := compound(2, read(10), readlink())
	for name, c := range map[string]struct {
		body []byte
		want error
	}{
		"longer than asked for":  {results(0, 1, didRead("eleven bytes")), ulb.ErrUnplanned},
		"one more than asked":    {results(0, 3, didRead("a"), didReadlink("b"), didRead("c")), ulb.ErrUnplanned},
		"operation not known":    {results(0, 2, didRead("a"), 4711, 0), ulb.ErrUnknown},
		"cut in a word":          {results(0, 1, didRead("a"))[:30], ulb.ErrMalformed},
		"cut in an item":         {results(0, 1, didRead("abcde"))[:32], ulb.ErrMalformed},
		"cut between operations": {results(0, 2, didRead("a")), ulb.ErrMalformed},
		"too many operations":    {enc(0, "", 1025), ulb.ErrMalformed},
		"boolean 2":              {results(0, 1, 25, 0, 2, "a"), ulb.ErrMalformed},
		"length to the moon":     {results(0, 1, 25, 0, 1, -1), ulb.ErrMalformed},
		"empty":                  {nil, ulb.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			var p ulb.Plan
			must(t, p.Call(registry, ask))
			err := p.Reply(&oncrpc.Payload{Stream: c.body})
			if !errors.Is(err, c.want) {
				t.Fatalf("got %v, want %v", err, c.want)
			}
			if again := p.Finish(); !errors.Is(again, c.want) {
				t.Errorf("the error does not stick: %v", again)
			}
		})
	}
}

func TestUnknownOperationKeepsWhatWasBefore(t *testing.T) {
	var p ulb.Plan
	err := p.Call(registry, compound(3, write("data"), read(5), 4711, "who knows"))
	if !errors.Is(err, ulb.ErrUnknown) {
		t.Fatal(err)
	}
	if len(p.Items) != 1 || len(p.Results) != 1 {
		t.Errorf("items %+v, results %+v", p.Items, p.Results)
	}
}

// TestItemsApart: what an RDMA peer has reduced stays apart; positions are
// those in the stream that is left.
func TestItemsApart(t *testing.T) {
	head := enc("", 1, 3, 38, sid, 0, 0, 2, 6)
	between := enc(6, 5, 4)
	stream := slices.Concat(head, between, enc("name", 0, 0), read(9))
	c := compound(0)
	c.Args = oncrpc.Payload{Stream: stream, Items: []oncrpc.Item{
		{Pos: len(head), Data: []byte("abcdef")}, {Pos: len(head) + len(between), Data: []byte("link")}}}
	var p ulb.Plan
	if err := p.Call(registry, c); err != nil || p.Offset() != len(stream) {
		t.Fatalf("%v at %d of %d", err, p.Offset(), len(stream))
	}
	want := []ulb.Item{{Pos: len(head), Len: 6}, {Pos: len(head) + len(between), Len: 4}}
	if !slices.Equal(p.Items, want) || len(p.Results) != 1 {
		t.Errorf("items %+v, results %+v", p.Items, p.Results)
	}
	c.Args.Items[0].Data = []byte("abcdef\x00\x00") // with roundup
	if err := p.Call(registry, c); err != nil {
		t.Errorf("with roundup: %v", err)
	}
	for name, spoil := range map[string]func([]oncrpc.Item) []oncrpc.Item{
		"shorter":       func(i []oncrpc.Item) []oncrpc.Item { i[0].Data = []byte("abcde"); return i },
		"much longer":   func(i []oncrpc.Item) []oncrpc.Item { i[0].Data = []byte("abcdefghi"); return i },
		"elsewhere":     func(i []oncrpc.Item) []oncrpc.Item { i[1].Pos = 8; return i },
		"one too many":  func(i []oncrpc.Item) []oncrpc.Item { return append(i, oncrpc.Item{Pos: len(stream)}) },
		"in the header": func(i []oncrpc.Item) []oncrpc.Item { return append([]oncrpc.Item{{Pos: 4}}, i...) },
	} {
		bad := *c
		bad.Args.Items = spoil(slices.Clone(c.Args.Items))
		if err := p.Call(registry, &bad); !errors.Is(err, ulb.ErrIneligible) && !errors.Is(err, ulb.ErrMalformed) && !errors.Is(err, ulb.ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPadding: RDMA_MSGP has padding before the data of long opaques.
func TestPadding(t *testing.T) {
	pad := oncrpc.Padding{Align: 64, Thresh: 32, Base: 72}
	data := make([]byte, 40)
	head := enc("", 1, 2, 38, sid, 0, 0, 2, len(data))
	gap := make([]byte, pad.Before(len(head), len(data)))
	if len(gap) == 0 {
		t.Fatal("nothing to see")
	}
	c := compound(0)
	c.Args = oncrpc.Payload{Stream: slices.Concat(head, gap, data, read(1)), Padding: pad}
	var p ulb.Plan
	if err := p.Call(registry, c); err != nil || p.Offset() != len(c.Args.Stream) {
		t.Fatalf("%v at %d of %d", err, p.Offset(), len(c.Args.Stream))
	}
	if want := (ulb.Item{Pos: len(head) + len(gap), Len: len(data)}); p.Items[0] != want {
		t.Errorf("item %+v, want %+v", p.Items[0], want)
	}
	if pads, ok := p.Pads(); !ok || !slices.Equal(pads, []walk.Pad{{Off: len(head), Len: len(gap)}}) {
		t.Errorf("padding at %+v, %v", pads, ok)
	}
	sealed := *c
	sealed.Cred, sealed.Args.Padding.Base = gss(0, 2), pad.Base-8
	sealed.Args.Stream = enc(4+len(c.Args.Stream), 7, c.Args.Stream, "checksum")
	if err := p.Call(registry, &sealed); err != nil {
		t.Fatal(err)
	}
	if pads, ok := p.Pads(); !ok || !slices.Equal(pads, []walk.Pad{{Off: 8 + len(head), Len: len(gap)}}) {
		t.Errorf("integrity: padding at %+v, %v", pads, ok)
	}
	c.Args.Stream = append(c.Args.Stream[:len(c.Args.Stream)-len(read(1))], enc(4711)...)
	if err := p.Call(registry, c); !errors.Is(err, ulb.ErrUnknown) {
		t.Fatal(err)
	}
	if pads, ok := p.Pads(); ok {
		t.Errorf("padding at %+v, though not all is known", pads)
	}
}

func TestFind(t *testing.T) {
	var p ulb.Plan
	must(t, p.Call(registry, compound(3, read(100), readlink(), read(100))))
	body := results(0, 3, didRead("hello"), didReadlink("there"), didRead("you"))
	for i, want := range []int{24, 24 + 4 + 8 + 8, 24 + 4 + 8 + 8 + 4 + 8 + 12, -1} {
		if got := p.Find(body, i, nil); got != want {
			t.Errorf("result %d: at %d, want %d", i, got, want)
		}
	}
	apart := results(0, 3, 25, 0, 1, 5, 27, 0, 5, didRead("you"))
	for i, want := range []int{24, 24 + 4 + 8, 24 + 4 + 8 + 4 + 12} {
		if got := p.Find(apart, i, []int{8, 5, 0}); got != want {
			t.Errorf("apart, result %d: at %d, want %d", i, got, want)
		}
	}
	if got := p.Find(apart, 1, []int{4}); got != -1 {
		t.Errorf("found at %d after a result that is too short", got)
	}
	if got := p.Find(results(0, 3, 25, 5, didReadlink("x")), 0, nil); got != -1 {
		t.Errorf("found the failed one at %d", got)
	}
	if got := p.Find(body[:30], 1, nil); got != -1 {
		t.Errorf("found at %d in what is cut", got)
	}
}

// TestProtectedBodies: RPCSEC_GSS (RFC 2203).
func TestProtectedBodies(t *testing.T) {
	plain := compound(2, write("data"), read(1000))
	var p ulb.Plan
	must(t, p.Call(registry, plain))
	bare := p.MaxReply
	reply := results(0, 2, 38, 0, 4, 2, 0, 0, didRead("hello"))

	none := *plain
	none.Cred = gss(0, 1)
	if err := p.Call(registry, &none); err != nil || len(p.Items) != 1 || len(p.Results) != 1 || p.MaxReply != bare+400 {
		t.Errorf("service none: %v, %+v", err, p)
	}
	if err := p.Reply(&oncrpc.Payload{Stream: reply}); err != nil || p.Results[0].Len != 5 {
		t.Errorf("service none: %v, %+v", err, p.Results)
	}

	if p.Protected() {
		t.Error("service none is protected")
	}
	sealed := none
	sealed.Cred = gss(0, 2)
	sealed.Args.Stream = enc(len(plain.Args.Stream)+4, 7, plain.Args.Stream, "checksum")
	if err := p.Call(registry, &sealed); err != nil || len(p.Items)+len(p.Results) != 0 || p.MaxReply != bare+400+8+404+1000 {
		t.Errorf("integrity: %v, items %v, results %v, MaxReply %d", err, p.Items, p.Results, p.MaxReply)
	}
	if err := p.Reply(&oncrpc.Payload{Stream: []byte("anything")}); err != nil || len(p.Results) != 0 {
		t.Errorf("integrity: %v", err)
	}

	for name, cred := range map[string]oncrpc.Auth{
		"privacy":         gss(0, 3),
		"INIT":            gss(1, 1),
		"other service":   gss(0, 9),
		"short":           {Flavor: oncrpc.FlavorGSS, Body: enc(1, 0)},
		"another version": {Flavor: oncrpc.FlavorGSS, Body: enc(2, 0, 7, 1, "handle")},
	} {
		hidden := none
		hidden.Cred = cred
		if err := p.Call(registry, &hidden); err != nil || len(p.Items)+len(p.Results) != 0 || p.MaxReply != ulb.Unknown {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
		if err := p.Reply(&oncrpc.Payload{Stream: reply}); err != nil {
			t.Errorf("%s: reply %v", name, err)
		}
		if !p.Protected() {
			t.Errorf("%s: not protected", name)
		}
	}
}

// TestNothingIsGuessed: what has no binding is not looked at.
func TestNothingIsGuessed(t *testing.T) {
	for name, c := range map[string]*oncrpc.Call{
		"program":   {Program: 200000, Version: 1, Procedure: 1},
		"version":   {Program: nfsProgram, Version: 9, Procedure: 1},
		"procedure": {Program: nfsProgram, Version: 3, Procedure: 99},
	} {
		c.Args = oncrpc.Payload{Stream: enc("bytes"), Items: []oncrpc.Item{{Pos: 4, Data: []byte("x")}}}
		var p ulb.Plan
		if err := p.Call(registry, c); err != nil || len(p.Items)+len(p.Results) != 0 || p.MaxReply != ulb.Unknown {
			t.Errorf("%s: %v, %+v", name, err, p)
		}
		if err := p.Reply(&oncrpc.Payload{Stream: enc(1, 2, 3)}); err != nil || p.Offset() != 0 {
			t.Errorf("%s: reply %v", name, err)
		}
	}
}

func TestRegistryRefusesTwoOfAKind(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("taken")
		}
	}()
	ulb.NewRegistry(append(nfs3(), nfs3()...)...)
}

func nfs3() []ulb.Binding { return []ulb.Binding{{Name: "a", Program: nfsProgram, Version: 3}} }

// TestFindBehindLimits: Find passes numbers over the limits, whatever item an earlier walk
// stopped at.
func TestFindBehindLimits(t *testing.T) {
	p := ulb.Plan{Limits: nfs.LimitsOf(1<<20, nil)}
	const maxRead = 1 << 30
	attrs := enc(9, 0, 1, maxRead, 8, 0, 4<<20) // GETATTR: more than the limit
	for name, c := range map[string]*oncrpc.Call{
		"after items of the call": compound(4, write("a"), write("b"), enc(9, 1, maxRead), read(10)),
		"after another reply":     compound(2, enc(9, 1, maxRead), read(10)),
	} {
		if len(c.Args.Stream) < 100 {
			must(t, p.Call(registry, compound(2, read(1), read(1))))
			must(t, p.Reply(&oncrpc.Payload{Stream: results(0, 2, didRead("x"), didRead("y"))}))
		}
		must(t, p.Call(registry, c))
		body := results(0, 2, attrs, didRead("data"))
		if at := p.Find(body, 0, nil); at != len(body)-8 {
			t.Errorf("%s: found at %d, want %d", name, at, len(body)-8)
		}
	}
}

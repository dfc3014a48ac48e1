package characteristics

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestWishesThatCross: the peer asks for a wish after it was told of another,
// and we want neither any more. Until it is known that it does not ask for the
// second, replies are planned for no more than that.
func TestWishesThatCross(t *testing.T) {
	const first, second, most = 12 << 10, 17 << 10, 40 << 10
	want := func(size uint32) Config { return Config{On: true, Receives: size} }
	c := State{Requester: true}
	c.Start(want(most), most)
	c.Peer, c.wish.told, c.Known, c.wish.known = Supported, most, c.Own, most

	step := func(want rpcrdma2.OptType, planned uint32) {
		t.Helper()
		body := c.Next(true, true)
		if body == nil || body.Type() != want || c.Planned() != planned {
			t.Fatalf("%T is next, and %d bytes are planned for; want operation %d, %d bytes", body, c.Planned(), want, planned)
		}
		if want == rpcrdma2.OptRequest {
			c.Requests(1)
		}
	}
	c.Apply(want(first))
	step(rpcrdma2.OptUpdate, first)
	c.Apply(want(second))
	step(rpcrdma2.OptRequest, first) // has the first acknowledged
	c.Answered()
	step(rpcrdma2.OptUpdate, first)
	step(rpcrdma2.OptRequest, first) // and the second
	c.Apply(want(most))
	if respond, lowered, _ := c.answer(rpcrdma2.Set{sizeOf(first)}); lowered || !respond.Rejected.Has(0) {
		t.Errorf("a wish of old is done: %+v", respond)
	}
	c.Answered()
	step(rpcrdma2.OptUpdate, second)
	step(rpcrdma2.OptRequest, second) // and that there is none any more
	c.Answered()
	if body := c.Next(true, true); body != nil || c.Planned() != most {
		t.Errorf("in the end %T is next, and %d bytes are planned for", body, c.Planned())
	}
}

// TestMalformedWish: what another experiment may mean by the same characteristic is
// skipped, and what makes sense as a wish leads to no more than a REQUEST.
func TestMalformedWish(t *testing.T) {
	var c State
	c.Start(Config{On: true, Receives: 4096}, 4096)
	c.Peer, c.Known, c.wish.known = Supported, c.Own, 4096
	c.Told.ReceiveSize = 8192
	for _, data := range [][]byte{nil, {1}, {0, 0, 8, 0, 0}, {0, 0, 3, 255}} {
		if err := c.Learn(rpcrdma2.Set{{ID: charReceiveWish, Data: data}}); err != nil || c.Info().Asks || c.Next(true, true) != nil {
			t.Errorf("%x is taken for a wish: %v", data, err)
		}
	}
	if err := c.Learn(rpcrdma2.Set{wishOf(4096)}); err != nil || !c.Info().Asks {
		t.Fatal(err)
	}
	if body := c.Next(true, true); body == nil || body.Type() != rpcrdma2.OptRequest {
		t.Fatalf("a wish leads to %T", body)
	}
	c.Requests(1)
	c.Responded(&rpcrdma2.Respond{Rejected: rpcrdma2.Subset{}.Add(0)})
	if n, _ := c.PeerReceive(); n != 8192 || c.Next(true, true) != nil {
		t.Errorf("a rejected REQUEST changes something: Sends of %d bytes", n)
	}
}

package conn

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestWishesThatCross: the peer asks for a wish after it was told of another,
// and we want neither any more. Until it is known that it does not ask for the
// second, replies are planned for no more than that.
func TestWishesThatCross(t *testing.T) {
	const first, second, most = 12 << 10, 17 << 10, 40 << 10
	s := DefaultSettings()
	want := func(size uint32) *Settings {
		s.InlineReceiveSize = size
		return &s
	}
	s.Extensions |= ExtV2 | ExtCharacteristics
	c := characteristics{requester: true}
	c.start(want(most), most)
	c.peer, c.toldWish, c.known, c.knownWish = supported, most, c.own, most

	step := func(want rpcrdma2.OptType, planned uint32) {
		t.Helper()
		body := c.next(true, true)
		if body == nil || body.Type() != want || c.planned() != planned {
			t.Fatalf("%T is next, and %d bytes are planned for; want operation %d, %d bytes", body, c.planned(), want, planned)
		}
		if want == rpcrdma2.OptRequest {
			c.requests(1)
		}
	}
	c.apply(want(first))
	step(rpcrdma2.OptUpdate, first)
	c.apply(want(second))
	step(rpcrdma2.OptRequest, first) // has the first acknowledged
	c.answered()
	step(rpcrdma2.OptUpdate, first)
	step(rpcrdma2.OptRequest, first) // and the second
	c.apply(want(most))
	if respond, lowered, _ := c.answer(rpcrdma2.Set{sizeOf(first)}); lowered || !respond.Rejected.Has(0) {
		t.Errorf("a wish of old is done: %+v", respond)
	}
	c.answered()
	step(rpcrdma2.OptUpdate, second)
	step(rpcrdma2.OptRequest, second) // and that there is none any more
	c.answered()
	if body := c.next(true, true); body != nil || c.planned() != most {
		t.Errorf("in the end %T is next, and %d bytes are planned for", body, c.planned())
	}
}

package characteristics

import (
	"testing"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// TestOtherValues: what a RESPOND says has another value than the one asked for has it, whether
// it was asked for or not. With a malformed value among them, nothing changes.
func TestOtherValues(t *testing.T) {
	set := func(change func(*rpcrdma2.Values), ids ...rpcrdma2.CharID) (s rpcrdma2.Set) {
		v := rpcrdma2.DefaultValues()
		change(&v)
		for _, id := range ids {
			s = append(s, v.Encode(id))
		}
		return s
	}
	first := func(yes bool) (s rpcrdma2.Subset) {
		if yes {
			s = s.Add(0)
		}
		return s
	}
	less := func(v *rpcrdma2.Values) { v.ReceiveSize, v.RequestReceive = 6000, 2 }
	bad := append(set(less, rpcrdma2.CharRequestReceive), rpcrdma2.Characteristic{ID: rpcrdma2.CharRTR, Data: []byte{1}})
	for name, tc := range map[string]struct {
		asked     uint32 // 0: an empty REQUEST
		done      bool
		other     rpcrdma2.Set
		size, max uint32
	}{
		"done":              {5000, true, nil, 5000, 8},
		"part of the way":   {5000, false, set(less, rpcrdma2.CharReceiveSize), 6000, 8},
		"and something":     {5000, true, set(less, rpcrdma2.CharRequestReceive), 5000, 2},
		"something alone":   {0, false, set(less, rpcrdma2.CharRequestReceive), 9000, 2},
		"rejected":          {5000, false, nil, 9000, 8},
		"rejected, and bad": {5000, false, bad, 9000, 8},
	} {
		var c State
		c.Start(Config{On: true, Receives: 4096}, 4096)
		c.Peer, c.Told.ReceiveSize, c.Told.RequestReceive = Supported, 9000, 8
		c.Requests(1)
		c.request.size = tc.asked
		c.Responded(&rpcrdma2.Respond{Done: first(tc.done), Rejected: first(tc.asked != 0 && !tc.done), Other: tc.other})
		if n, _ := c.PeerReceive(); n != tc.size || c.Told.RequestReceive != tc.max {
			t.Errorf("%s: Sends of %d bytes, %d transmissions", name, n, c.Told.RequestReceive)
		}
	}
}

// TestSizeOfStructure: while the peer announced no size, its structure is as long as its receives,
// and no structure means the default size. The size that it has granted us is announced.
func TestSizeOfStructure(t *testing.T) {
	var c State
	c.Start(Config{On: true, Receives: 4096}, 4096)
	c.Peer = Supported
	page := rpcrdma2.Values{Buffer: rpcrdma2.Buffer{Length: 5120, Groups: []rpcrdma2.BufferGroup{
		{Count: 1, Length: 1024, Align: 4}, {Count: 1, Length: 4096, Align: 4096, Flags: rpcrdma2.TargetableFlag},
	}}}
	learn := func(v rpcrdma2.Values, taken bool, size uint32) {
		t.Helper()
		err := c.Learn(rpcrdma2.Set{v.Encode(rpcrdma2.CharReceiveBuffer)})
		if n, _ := c.PeerReceive(); n != size || (err == nil) != taken {
			t.Errorf("Sends of %d bytes, not %d: %v", n, size, err)
		}
	}
	learn(page, true, 5120)
	learn(rpcrdma2.Values{}, true, 4096)
	c.Requests(1)
	c.request.size = 2048
	c.Responded(&rpcrdma2.Respond{Done: rpcrdma2.Subset{1}})
	learn(rpcrdma2.Values{}, true, 2048)
	learn(page, false, 2048)
}

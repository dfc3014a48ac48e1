package conn

import (
	"github.com/rdmad/rdmad/rpcrdma/conn/placement"
	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"
)

// targets are the target segments of receives, ours and the peer's: what it
// takes to place items by Sends (rtrext §3.3).
//
// A message does not say for which structure it was laid out, and may be on its
// way while another one is told. So a connection has one alone: that of the
// first receives that have targets. It is told while receives are as large or
// larger, and taken back while they are smaller.
type targets struct {
	*ownTargets

	peers placement.Structure
	from  *rpcrdma2.BufferGroup // that peers was read from
}

// ownTargets are those of our receives, the same for both directions' roles.
type ownTargets struct {
	ours  placement.Structure
	size  uint32 // of the receives that ours is of; 0: there are none yet
	known bool   // the peer may have been told it
}

// begin notes the size of receives that are, or are to be, posted.
func (t *ownTargets) begin(size uint32) {
	if t.size > 0 || size < placement.LeastSize {
		return
	}
	b := placement.Derive(size)
	s, err := placement.Read(&b)
	if err != nil {
		panic("conn: " + err.Error()) // of our own making
	}
	t.ours, t.size = s, size
}

// tell is the structure to tell when all receives posted have so many bytes.
func (t *ownTargets) tell(receive uint32) rpcrdma2.Buffer {
	if t.size == 0 || receive < t.size {
		return rpcrdma2.Buffer{}
	}
	t.known = true
	return placement.Derive(t.size)
}

// told is our structure as far as the peer may know it: of one that was never
// told nothing is found.
func (t *ownTargets) told() *placement.Structure {
	if !t.known {
		return &noTargets
	}
	return &t.ours
}

var noTargets placement.Structure

// peer is the structure that the peer told; one that can't be is as none.
func (t *targets) peer(told *rpcrdma2.Buffer) *placement.Structure {
	if len(told.Groups) == 0 {
		t.from, t.peers = nil, placement.Structure{}
		return &t.peers
	}
	if from := &told.Groups[0]; from != t.from { // each time it is told it is another
		t.from = from
		t.peers, _ = placement.Read(told)
	}
	return &t.peers
}

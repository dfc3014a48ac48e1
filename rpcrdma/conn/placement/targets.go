package placement

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// Targets are the target segments of receives, ours and the peer's (rtrext §3.3).
//
// A message does not say for which structure it was laid out, and may be on its
// way while another one is announced. So a connection has one structure of its own
// only: that of the first receives that have targets. It is announced while receives
// are as large or larger, and taken back while they are smaller.
type Targets struct {
	*Own

	peers Structure
	from  *rpcrdma2.BufferGroup // that peers was read from
}

// Own are the target segments of our receives, the same for the roles of both
// directions.
type Own struct {
	ours  Structure
	size  uint32 // of the receives that ours is of; 0: there are none yet
	known bool   // the peer may know it
}

// Begin notes the size of receives that are, or are to be, posted.
func (t *Own) Begin(size uint32) {
	if t.size > 0 || size < LeastSize {
		return
	}
	b := Derive(size)
	s, err := Read(&b)
	if err != nil {
		panic(err) // of our own making
	}
	t.ours, t.size = s, size
}

// Tell is the structure to announce when all receives posted have so many bytes.
func (t *Own) Tell(receive uint32) rpcrdma2.Buffer {
	if t.size == 0 || receive < t.size {
		return rpcrdma2.Buffer{}
	}
	t.known = true
	return Derive(t.size)
}

// Ours is our structure.
func (t *Own) Ours() *Structure { return &t.ours }

// Told is our structure as far as the peer may know it. In receives of a structure
// that was never announced nothing is found.
func (t *Own) Told() *Structure {
	if !t.known {
		return &noTargets
	}
	return &t.ours
}

var noTargets Structure

// Peer is the structure that the peer announced. One that is impossible counts as
// none.
func (t *Targets) Peer(told *rpcrdma2.Buffer) *Structure {
	if len(told.Groups) == 0 {
		t.from, t.peers = nil, Structure{}
		return &t.peers
	}
	if from := &told.Groups[0]; from != t.from { // each announcement has its own
		t.from = from
		t.peers, _ = Read(told)
	}
	return &t.peers
}

// Version identifies the structure that Peer returned last. A plan that was made
// with another one no longer holds.
func (t *Targets) Version() *rpcrdma2.BufferGroup { return t.from }

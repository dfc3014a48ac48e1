package placement

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

// Targets are the target segments of receives, ours and the peer's (rtrext §3.3).
//
// A message does not say for which structure it was laid out, and may be on its way while
// another one is announced. So a connection has only one structure of its own: that of its
// first receives that have targets. It is announced while all receives are at least that
// large, and withdrawn while they are smaller.
type Targets struct {
	*Own

	peers Structure
	from  *rpcrdma2.BufferGroup // that peers was read from
}

// Own holds the target segments of our receives. The roles of both directions share it.
type Own struct {
	ours  Structure
	size  uint32 // the receive size that ours belongs to; 0 means none yet
	known bool   // the peer may know ours
}

// Begin records the size of receives that are posted or will be.
func (t *Own) Begin(size uint32) {
	if t.size > 0 || size < LeastSize {
		return
	}
	b := Derive(size)
	s, err := Read(&b)
	if err != nil {
		panic(err) // Derive made an invalid structure
	}
	t.ours, t.size = s, size
}

// Tell returns the structure to announce when all posted receives have receive bytes.
func (t *Own) Tell(receive uint32) rpcrdma2.Buffer {
	if t.size == 0 || receive < t.size {
		return rpcrdma2.Buffer{}
	}
	t.known = true
	return Derive(t.size)
}

// Ours returns our structure.
func (t *Own) Ours() *Structure { return &t.ours }

// Told returns our structure if the peer may know it. Nothing is found in receives whose
// structure was never announced.
func (t *Own) Told() *Structure {
	if !t.known {
		return &noTargets
	}
	return &t.ours
}

var noTargets Structure

// Peer returns the structure that the peer announced. An invalid one counts as none.
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

// Version identifies the structure that Peer returned last. A plan made with another one is
// no longer valid.
func (t *Targets) Version() *rpcrdma2.BufferGroup { return t.from }

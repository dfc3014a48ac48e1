package referee

import (
	"cmp"
	"slices"
	"sort"
)

// Bounds of the state that is kept of one connection.
const (
	maxCalls   = 4096    // in flight in one direction
	maxWindows = 1 << 16 // segments and write chunks offered
	maxReads   = 4096    // unfinished RDMA Reads of one side
	maxSpans   = 8       // separate written ranges of one segment
	maxPrefix  = 64 << 10
	maxKept    = 2 << 20 // total bytes kept of messages that RDMA transfers
	maxShared  = 16      // windows that one access is recorded for
	maxGone    = 512     // STags remembered after their calls, to distinguish stale from unknown
)

type right uint8

const (
	mayRead right = 1 << iota
	mayWrite
)

// window is one segment that its owner offers to its peer.
type window struct {
	segment
	owner   Side
	right   right
	xid     uint32
	frame   uint64 // when it was offered
	seq     uint64 // number of the offer on this connection, from 1
	written spans
	body    *assembly // the assembly that this window is a part of
	at      uint64    // offset in body

	withdrawn bool
	replaced  bool // by a call with the same XID: the peer may use either one's windows
}

// holds reports whether length bytes at offset are within w.
func (w *window) holds(offset, length uint64) bool {
	return offset >= w.offset && length <= uint64(w.length) && offset-w.offset <= uint64(w.length)-length
}

// lose marks what was written to w or read from it as unknown.
func (w *window) lose() {
	w.written.lost = true
	if w.body != nil {
		w.body.lost = true
	}
}

// gone is a window whose call was answered or replaced.
type gone struct {
	owner     Side
	stag, xid uint32
	frame     uint64 // when it was answered
	replaced  bool
}

// pendingRead is an RDMA Read that is not done.
type pendingRead struct {
	windows []*window // windows that it may be for
	offset  uint64
	length  int
}

// shared reports whether p may read one of several messages.
func (p *pendingRead) shared() bool {
	var body *assembly
	return slices.ContainsFunc(p.windows, func(w *window) bool {
		other := body != nil && w.body != nil && w.body != body
		body = cmp.Or(w.body, body)
		return other
	})
}

// memory is the state of the memory that the two sides offer each other.
type memory struct {
	windows [2]map[uint32][]*window // by owner and STag
	count   int
	gone    ring[gone]
	reads   [2][]pendingRead
	seen    [2]bool // an RDMA Write or Read of the side was seen
	kept    int     // bytes in assemblies
	seq     uint64
	missed  bool // offers may have been missed
	found   []*window
}

func newMemory() memory {
	return memory{windows: [2]map[uint32][]*window{{}, {}}}
}

func (m *memory) gap() {
	m.missed = true
	m.reads = [2][]pendingRead{}
	for _, byStag := range m.windows {
		for _, list := range byStag {
			for _, w := range list {
				w.lose()
			}
		}
	}
}

// offer adds the windows that are not offered yet. It reports whether there was
// room for all.
func (m *memory) offer(list []*window) bool {
	for _, w := range list {
		if w.seq != 0 {
			continue
		}
		if m.count == maxWindows {
			return false
		}
		m.count++
		m.seq++
		w.seq = m.seq
		byStag := m.windows[w.owner]
		byStag[w.stag] = append(byStag[w.stag], w)
	}
	return true
}

// weigh makes room for n write chunks, which take memory even without segments.
// It reports whether there was room.
func (m *memory) weigh(n int) bool {
	m.count += n
	return m.count <= maxWindows
}

// withdraw removes offered windows, because their call was answered in frame.
func (m *memory) withdraw(list []*window, frame uint64) {
	for _, w := range list {
		w.withdrawn = true
	}
	for i, w := range list {
		if i == 0 || w.stag != list[i-1].stag {
			m.sweep(w.owner, w.stag)
		}
		m.gone.add(gone{owner: w.owner, stag: w.stag, xid: w.xid, frame: frame, replaced: w.replaced}, maxGone)
		if w.body != nil {
			m.kept -= cap(w.body.buf)
			w.body.buf, w.body.lost = nil, true
		}
	}
	m.count -= len(list)
}

// sweep removes the withdrawn windows of a STag.
func (m *memory) sweep(owner Side, stag uint32) {
	byStag := m.windows[owner]
	rest := slices.DeleteFunc(byStag[stag], func(x *window) bool { return x.withdrawn })
	if len(rest) == 0 {
		delete(byStag, stag)
	} else {
		byStag[stag] = rest
	}
}

// lately finds the newest window with the STag that was withdrawn.
func (m *memory) lately(owner Side, stag uint32) (gone, bool) {
	list := m.gone.list
	for i := range list { // from the newest
		g := list[(m.gone.next-1-i+2*len(list))%len(list)]
		if g.owner == owner && g.stag == stag {
			return g, true
		}
	}
	return gone{}, false
}

// replaced reports whether the STag belonged to a call that another call with
// its XID replaced.
func (m *memory) replaced(owner Side, stag uint32) bool {
	return slices.ContainsFunc(m.gone.list, func(g gone) bool { return g.replaced && g.owner == owner && g.stag == stag })
}

// find returns the windows that an access of length bytes may be for: several
// calls may offer the same memory. found is valid until the next call of find.
// near is another window with the same STag, or nil.
func (m *memory) find(owner Side, stag uint32, offset, length uint64, need right) (found []*window, near *window) {
	m.found = m.found[:0]
	for _, w := range m.windows[owner][stag] {
		switch {
		case !w.holds(offset, length):
			if near == nil {
				near = w
			}
		case w.right&need != 0 && len(m.found) == maxShared:
			w.lose()
		case w.right&need != 0:
			m.found = append(m.found, w)
		default:
			near = w
		}
	}
	return m.found, near
}

// covered reports whether several windows with the STag together hold the whole
// access.
func (m *memory) covered(owner Side, stag uint32, offset, length uint64, need right) bool {
	list := slices.Clone(m.windows[owner][stag])
	slices.SortFunc(list, func(a, b *window) int { return cmp.Compare(a.offset, b.offset) })
	for _, w := range list {
		if w.right&need != 0 && w.offset <= offset && offset-w.offset < uint64(w.length) {
			step := min(length, uint64(w.length)-(offset-w.offset))
			offset, length = offset+step, length-step
		}
	}
	return length == 0
}

// access judges an RDMA Write or RDMA Read and returns the windows that hold
// all of it.
func (r *Referee) access(e *Event, need right) []*window {
	r.memory.seen[e.From] = true
	owner, length := e.From.Peer(), uint64(max(e.Length, 0))
	found, near := r.memory.find(owner, e.STag, e.Offset, length, need)
	switch {
	case len(found) > 0 || length == 0:
	case near == nil:
		r.noWindow(e, owner)
	case r.memory.covered(owner, e.STag, e.Offset, length, need): // it is not known what each of them got
		for _, w := range r.memory.windows[owner][e.STag] {
			w.lose()
		}
	case r.memory.missed, r.memory.replaced(owner, e.STag):
	case near.holds(e.Offset, length):
		r.report("memory.rights", e.From, "%v of %d bytes at STag %#x, which XID %#x offered for the opposite", e.Kind, length, e.STag, near.xid)
	default:
		r.report("memory.range", e.From, "%v of %d bytes at STag %#x, offset %#x: XID %#x offered %d bytes at %#x",
			e.Kind, length, e.STag, e.Offset, near.xid, near.length, near.offset)
	}
	return found
}

// noWindow judges an access to memory that no call in flight offers.
func (r *Referee) noWindow(e *Event, owner Side) {
	if r.memory.missed || r.memory.replaced(owner, e.STag) {
		return
	}
	if g, ok := r.memory.lately(owner, e.STag); ok {
		r.report("memory.stale", e.From, "%v of %d bytes at STag %#x, which belonged to XID %#x and ended in frame %d",
			e.Kind, e.Length, e.STag, g.xid, g.frame)
		return
	}
	r.report("memory.unknown", e.From, "%v of %d bytes at STag %#x, which nothing offered", e.Kind, e.Length, e.STag)
}

func (r *Referee) write(e *Event) {
	r.sum.side(e.From).Writes++
	found := r.access(e, mayWrite)
	if e.Length <= 0 {
		return
	}
	for _, w := range found {
		at := e.Offset - w.offset
		w.written.add(at, uint64(e.Length))
		if w.body != nil {
			r.keep(w.body, w.at+at, e.Data, e.Length)
		}
	}
}

func (r *Referee) read(e *Event) {
	r.sum.side(e.From).Reads++
	p := pendingRead{windows: slices.Clone(r.access(e, mayRead)), offset: e.Offset, length: e.Length}
	if len(r.memory.reads[e.From]) >= maxReads {
		r.giveUp("more than %d RDMA Reads of the %v were not done", maxReads, e.From)
		return
	}
	r.memory.reads[e.From] = append(r.memory.reads[e.From], p)
}

func (r *Referee) readDone(e *Event) {
	r.memory.seen[e.From] = true
	reads := r.memory.reads[e.From]
	if len(reads) == 0 {
		return
	}
	p := reads[0]
	r.memory.reads[e.From] = slices.Delete(reads, 0, 1)
	unsure := r.memory.missed || p.shared() // it may be the end of an earlier Read, or of another message
	for _, w := range p.windows {
		b := w.body
		if b == nil {
			continue
		}
		if unsure || r.memory.replaced(w.owner, w.stag) {
			b.lost = true
			continue
		}
		r.keep(b, w.at+p.offset-w.offset, e.Data, p.length)
		if b.parked != nil {
			r.unpark(b)
		}
	}
}

// sees reports whether the RDMA Writes and RDMA Reads of a side can be seen.
func (r *Referee) sees(by Side) bool {
	switch {
	case r.memory.seen[by], r.cfg.Vantage == FromAnywhere:
		return true
	case r.cfg.Vantage == FromClient:
		return by == Client
	default:
		return by == Server
	}
}

// reading reports whether a side has an unfinished Read that can only be of one
// of the windows.
func (r *Referee) reading(by Side, list []*window) bool {
	return slices.ContainsFunc(r.memory.reads[by], func(p pendingRead) bool {
		return len(p.windows) == 1 && slices.Contains(list, p.windows[0])
	})
}

// spans are the written ranges of a segment, in order.
type spans struct {
	list []span
	lost bool // there may be more
}

type span struct{ from, to uint64 }

func (s *spans) add(at, length uint64) {
	n := span{at, at + length}
	i := sort.Search(len(s.list), func(i int) bool { return s.list[i].to >= n.from })
	j := i
	for j < len(s.list) && s.list[j].from <= n.to {
		n.from, n.to = min(n.from, s.list[j].from), max(n.to, s.list[j].to)
		j++
	}
	s.list = slices.Replace(s.list, i, j, n)
	if len(s.list) > maxSpans {
		s.list, s.lost = s.list[:maxSpans], true
	}
}

// holds reports whether the first length bytes were written or may have been.
func (s *spans) holds(length uint64) bool {
	return s.lost || length == 0 || len(s.list) > 0 && s.list[0].from == 0 && s.list[0].to >= length
}

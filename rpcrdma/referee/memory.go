package referee

import "slices"

// Bounds of what is kept of one connection.
const (
	maxCalls   = 4096    // in flight, of one direction
	maxWindows = 1 << 16 // segments and write chunks offered
	maxReads   = 4096    // RDMA Reads not done, of one side
	maxSpans   = 8       // separate stretches of one segment that were written
	maxPrefix  = 64 << 10
	maxKept    = 2 << 20 // bytes of messages that come by RDMA, all together
	maxShared  = 16      // windows that one access is noted for
	maxGone    = 512     // STags remembered after their calls, to tell stale from unknown
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
	frame   uint64 // of the offer
	seq     uint64 // of offers on this connection, from 1
	written spans
	body    *assembly // of which this is a part
	at      uint64    // where in body

	withdrawn bool
	replaced  bool // by those of another call with the same XID: its peer may use either
}

// holds says whether length bytes at offset are within w.
func (w *window) holds(offset, length uint64) bool {
	return offset >= w.offset && length <= uint64(w.length) && offset-w.offset <= uint64(w.length)-length
}

// lose gives up knowing what was written to w or read from it.
func (w *window) lose() {
	w.written.lost = true
	if w.body != nil {
		w.body.lost = true
	}
}

// gone is a window whose call was answered, or replaced.
type gone struct {
	owner     Side
	stag, xid uint32
	frame     uint64 // of the answer
	replaced  bool
}

// pendingRead is an RDMA Read that is not done.
type pendingRead struct {
	windows []*window // that it may be for
	offset  uint64
	length  int
}

// memory is what the two sides offer to each other.
type memory struct {
	windows [2]map[uint32][]*window // by owner and STag
	count   int
	gone    []gone
	next    int // in gone, when it is full
	reads   [2][]pendingRead
	seen    [2]bool // RDMA Writes or Reads of the side were seen
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

// offer adds the windows that are not offered yet and says whether there is
// room.
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

// weigh makes room for n write chunks, which take memory without segments, too.
func (m *memory) weigh(n int) bool {
	m.count += n
	return m.count <= maxWindows
}

// withdraw removes windows, which were offered, at the answer in frame.
func (m *memory) withdraw(list []*window, frame uint64) {
	for _, w := range list {
		w.withdrawn = true
	}
	for i, w := range list {
		if i == 0 || w.stag != list[i-1].stag {
			m.sweep(w.owner, w.stag)
		}
		m.remember(gone{owner: w.owner, stag: w.stag, xid: w.xid, frame: frame, replaced: w.replaced})
		if w.body != nil {
			m.kept -= cap(w.body.buf)
			w.body.buf, w.body.lost = nil, true
		}
	}
	m.count -= len(list)
}

// sweep removes the windows of a STag that are withdrawn.
func (m *memory) sweep(owner Side, stag uint32) {
	byStag := m.windows[owner]
	rest := slices.DeleteFunc(byStag[stag], func(x *window) bool { return x.withdrawn })
	if len(rest) == 0 {
		delete(byStag, stag)
	} else {
		byStag[stag] = rest
	}
}

func (m *memory) remember(g gone) {
	if len(m.gone) < maxGone {
		m.gone = append(m.gone, g)
		return
	}
	m.gone[m.next] = g
	m.next = (m.next + 1) % maxGone
}

// lately finds a window that was withdrawn.
func (m *memory) lately(owner Side, stag uint32) (gone, bool) {
	for i := range m.gone { // from the newest on
		g := m.gone[(m.next-1-i+2*len(m.gone))%len(m.gone)]
		if g.owner == owner && g.stag == stag {
			return g, true
		}
	}
	return gone{}, false
}

// replaced says whether the STag was that of a call which another one with its XID
// replaced.
func (m *memory) replaced(owner Side, stag uint32) bool {
	return slices.ContainsFunc(m.gone, func(g gone) bool { return g.replaced && g.owner == owner && g.stag == stag })
}

// find returns the windows that an access of length bytes may be for, until the
// next call: several calls may offer the same memory. near is a window with the
// same STag.
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

// covered says whether windows with the STag hold all of an access together.
func (m *memory) covered(owner Side, stag uint32, offset, length uint64, need right) bool {
	list := slices.Clone(m.windows[owner][stag])
	slices.SortFunc(list, func(a, b *window) int {
		if a.offset < b.offset {
			return -1
		}
		return 1
	})
	for _, w := range list {
		if w.right&need != 0 && w.offset <= offset && offset-w.offset < uint64(w.length) {
			step := min(length, uint64(w.length)-(offset-w.offset))
			offset, length = offset+step, length-step
		}
	}
	return length == 0
}

// access judges an RDMA Write or Read by a side and returns the windows that
// hold it all.
func (r *Referee) access(e *Event, need right) []*window {
	r.memory.seen[e.From] = true
	owner, length := e.From.Peer(), uint64(max(e.Length, 0))
	found, near := r.memory.find(owner, e.STag, e.Offset, length, need)
	switch {
	case len(found) > 0 || length == 0:
	case near == nil:
		r.noWindow(e, owner)
	case r.memory.covered(owner, e.STag, e.Offset, length, need):
		r.loseTrack(owner, e.STag)
	case r.memory.missed, r.memory.replaced(owner, e.STag):
	case near.holds(e.Offset, length):
		r.report("memory.rights", e.From, "%v of %d bytes at STag %#x, which XID %#x offered for the opposite", e.Kind, length, e.STag, near.xid)
	default:
		r.report("memory.range", e.From, "%v of %d bytes at STag %#x, offset %#x: XID %#x offered %d bytes at %#x",
			e.Kind, length, e.STag, e.Offset, near.xid, near.length, near.offset)
	}
	return found
}

// loseTrack gives up knowing what was written where, after an access across
// segments.
func (r *Referee) loseTrack(owner Side, stag uint32) {
	for _, w := range r.memory.windows[owner][stag] {
		w.lose()
	}
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
	r.sum.wrote(e)
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
	r.sum.read(e)
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
	r.memory.reads[e.From] = append(reads[:0], reads[1:]...)
	for _, w := range p.windows {
		b := w.body
		if b == nil {
			continue
		}
		if r.memory.missed { // it may be the end of an earlier Read
			b.lost = true
			continue
		}
		r.keep(b, w.at+p.offset-w.offset, e.Data, p.length)
		if b.parked != nil {
			r.unpark(b)
		}
	}
}

// sees says whether the RDMA Writes and Reads of a side are seen.
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

// reading says whether a side's Read of one of the windows, and of no other, is
// not done.
func (r *Referee) reading(by Side, list []*window) bool {
	return slices.ContainsFunc(r.memory.reads[by], func(p pendingRead) bool {
		return len(p.windows) == 1 && slices.Contains(list, p.windows[0])
	})
}

// spans are the stretches of a segment that were written, in order.
type spans struct {
	list []span
	lost bool // there may be more
}

type span struct{ from, to uint64 }

func (s *spans) add(at, length uint64) {
	n := span{at, at + length}
	i, _ := slices.BinarySearchFunc(s.list, n, func(x, n span) int {
		if x.to < n.from {
			return -1
		}
		return 1
	})
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

// holds says whether the first length bytes were written, or may have been.
func (s *spans) holds(length uint64) bool {
	return s.lost || length == 0 || len(s.list) > 0 && s.list[0].from == 0 && s.list[0].to >= length
}

package referee

// reduction tracks which data items of a message are in chunks.
type reduction struct {
	r    *Referee
	m    *message
	over bool // the rest can't be judged
}

// readChunk is the data at one position of a call.
type readChunk struct{ position, length uint64 }

// argumentChunks returns a call's read chunks without the position-zero chunk.
func argumentChunks(m *message) []readChunk {
	var out []readChunk
	for i, s := range m.reads {
		switch {
		case s.position == 0:
		case i > 0 && len(out) > 0 && m.reads[i-1].position == s.position:
			out[len(out)-1].length += uint64(s.length)
		default:
			out = append(out, readChunk{uint64(s.position), uint64(s.length)})
		}
	}
	return out
}

// arguments are the data items of a call.
type arguments struct {
	reduction
	chunks []readChunk // chunks that no item has used yet
}

// item judges the DDP-eligible item whose length is next in s.
func (a *arguments) item(s *stream) error {
	n, err := s.word()
	if err != nil {
		return err
	}
	if a.missed(s.at()) {
		return nil
	}
	if len(a.chunks) == 0 || a.chunks[0].position >= s.at()+max(uint64(n), 1) {
		return s.skip(n)
	}
	c := a.chunks[0]
	if c.position != s.at() {
		a.ineligible(c)
		return nil
	}
	if c.length != uint64(n) && c.length != roundup(uint64(n)) {
		a.over = true
		a.r.report("ddp.length", a.m.from, "XID %#x: %d bytes in the chunk at position %d, an item of %d", a.m.xid, c.length, c.position, n)
		return nil
	}
	a.chunks = a.chunks[1:]
	s.moved += roundup(uint64(n))
	return nil
}

// missed reports whether judging is over. It is over if a chunk lies before at.
func (a *arguments) missed(at uint64) bool {
	if len(a.chunks) > 0 && a.chunks[0].position < at {
		a.ineligible(a.chunks[0])
	}
	return a.over
}

func (a *arguments) ineligible(c readChunk) {
	a.over = true
	a.r.report("ddp.ineligible", a.m.from, "XID %#x: the chunk at position %d holds no item that may be in one", a.m.xid, c.position)
}

// none judges arguments without DDP-eligible items.
func (a *arguments) none(*stream) {
	if len(a.chunks) > 0 {
		a.ineligible(a.chunks[0])
	}
}

// rest judges the chunks that are left after the last item, or after an item
// that could not be decoded. If the whole message is known, decoding failed
// because data is missing where the chunk belongs.
func (a *arguments) rest(s *stream, err error) {
	switch {
	case a.over:
	case err == nil, cut(err) && a.m.inline():
		a.none(s)
	default:
		a.missed(s.at())
	}
}

// results are the data items of a reply.
type results struct {
	reduction
	call *call
	next int  // index of the next chunk
	last bool // the last item is in a chunk
}

// item judges the DDP-eligible item whose length is next in s. The item uses
// one chunk, if there is one.
func (t *results) item(s *stream) error {
	n, err := s.word()
	if err != nil {
		return err
	}
	i := t.next
	t.next++
	if i >= len(t.m.writes) {
		return s.skip(n)
	}
	switch written := total(t.m.writes[i]); {
	case written == 0 && n > 0:
		// With a single chunk, the reader can't mistake which result is meant.
		if room := roomOf(t.call.writes[i]); room >= uint64(n) && len(t.m.writes) > 1 {
			t.r.report("ddp.result-inline", t.m.from, "XID %#x: result %d of %d bytes is inline, with a chunk of %d offered", t.m.xid, i, n, room)
		}
		return s.skip(n)
	case written != uint64(n) && written != roundup(uint64(n)):
		t.over = true
		t.r.report("ddp.length", t.m.from, "XID %#x: %d bytes in write chunk %d, a result of %d", t.m.xid, written, i, n)
	default:
		t.last = written > 0
		s.moved += roundup(uint64(n))
	}
	return nil
}

// rest judges the chunks that no item used.
func (t *results) rest(_ *stream, err error) {
	if err != nil || t.over {
		return
	}
	for i := t.next; i < len(t.m.writes); i++ {
		if n := total(t.m.writes[i]); n > 0 {
			t.r.report("ddp.result-order", t.m.from, "XID %#x: write chunk %d has %d bytes, and there are %d results", t.m.xid, i, n, t.next)
			return
		}
	}
}

func roomOf(chunk []*window) (n uint64) {
	for _, w := range chunk {
		n += uint64(w.length)
	}
	return n
}

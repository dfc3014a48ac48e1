package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/slow"
)

// long is the transport's state of a message that is read before its direction is known
// (conn.Long).
type long struct {
	l    *link
	core *conn.Long // nil means free
	fetch
	times slow.Timeline // until it is a call
}

var _ fetcher = (*long)(nil)

// readLong reads a message whose direction is not known.
func (l *link) readLong(core *conn.Long) {
	m := l.newLong(core)
	m.owner, m.list, m.reads = m, &core.Reads, core.Fetches
	if m.times.Reset(); l.slow.On() {
		m.times.Begin(l.now)
	}
	l.fetch(&m.fetch)
}

func (l *link) newLong(core *conn.Long) *long {
	for _, m := range l.longs {
		if m.core == nil {
			m.core = core
			return m
		}
	}
	m := &long{l: l, core: core}
	l.longs = append(l.longs, m)
	return m
}

func (m *long) late()    {}
func (m *long) behind()  { m.times.Pass(slow.Reading) }
func (m *long) posted()  {}
func (m *long) read(int) {}
func (m *long) reading() { m.times.Pass(slow.Reading) }

// fetched gives the message and its memory to its role.
func (m *long) fetched() {
	l := m.l
	l.early = &m.fetch
	l.received(l.inbound.Read(m.core, m.parts[0]))
	l.early = nil
	m.core = nil
	l.releaseFetch(&m.fetch) // unless the role has taken it over
}

// unfetched ends the connection: the direction of the message is unknown, so no role can
// answer it.
func (m *long) unfetched(err error) { m.l.dieLocked(err) }

// takeEarly passes the chunks of a long message on to the role that takes it.
func (l *link) takeEarly(f *fetch) {
	e := l.early
	l.early = nil
	f.buf, f.size, f.parts = e.buf, e.size, append(f.parts, e.parts...)
	e.buf, e.size = nil, 0
	f.owner.reading()
	f.owner.fetched()
}

// freeLongs frees the memory of messages that were being read. The queue pair no longer
// exists.
func (l *link) freeLongs() {
	for _, m := range l.longs {
		l.releaseFetch(&m.fetch)
	}
}

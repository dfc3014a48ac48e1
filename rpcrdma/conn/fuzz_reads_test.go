package conn

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
)

// What the fuzz models do about replies with read chunks.

// readReply has something happen to a reply that the peer reads, or a DONE
// arrive.
func (m *responderModel) readReply(s *script) {
	switch s.byte() % 5 {
	case 0:
		if c, ok := pick(s, &m.exposing); ok {
			m.run(m.r.Exposed(c, nil))
		}
	case 1:
		if c, ok := pick(s, &m.exposing); ok {
			m.run(m.r.NotExposed(c, nil))
		}
	case 2:
		if e, ok := pick(s, &m.fencing); ok {
			m.r.Unexposed(e)
		}
	case 3:
		if all := slices.Clone(m.r.exposures.all); len(all) > 0 {
			m.run(m.r.Reclaim(all[int(s.byte())%len(all)], nil))
		}
	case 4:
		for recv := range m.posted {
			delete(m.posted, recv)
			h := rpcrdma1.Header{XID: uint32(s.byte() % 8), Version: 1, Proc: rpcrdma1.Done}
			m.receive(recv, h.Append(nil))
			break
		}
	}
}

func (m *responderModel) checkExposure(e *Exposure) {
	total := 0
	for i := range e.Chunks {
		n := 0
		for _, p := range e.Chunks[i].Pieces {
			n += p.Len
		}
		if n != e.Chunks[i].Length || e.Chunks[i].Position%4 != 0 {
			m.t.Fatalf("%+v", e.Chunks[i])
		}
		total += n
	}
	if total != e.Bytes || e.Index >= MaxExposures || m.r.exposures.bytes > MaxExposedBytes {
		m.t.Fatalf("%d bytes in %+v", total, e)
	}
}

func (m *requesterModel) checkReading(rd *Reading) {
	total := 0
	for _, f := range rd.Fetches {
		if f.Length < 1 || f.Off+f.Length > rd.Reads.Chunks[f.Chunk].Length {
			m.t.Fatalf("%+v", f)
		}
		total += f.Length
	}
	if total > MaxMessage || total+len(rd.Stream) != rd.Size() {
		m.t.Fatalf("reads %d bytes of %d", total, rd.Size())
	}
	size := len(rd.Stream)
	if rd.Reads.Long() {
		size = rd.Reads.Chunks[0].Length
	}
	last := 0
	for i, it := range rd.Reads.Items() {
		if it.At < last || it.At > size {
			m.t.Fatalf("item at %d of %d", it.At, size)
		}
		last = it.At
		if len(rd.Results) > 0 && it.Length > rd.out.Results[rd.Results[i]]+3 {
			m.t.Fatalf("%d bytes for a result of %d", it.Length, rd.out.Results[rd.Results[i]])
		}
	}
}

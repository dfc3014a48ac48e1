package chunk

import (
	"cmp"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"
	"github.com/rdmad/rdmad/rpcrdma/xdr"
)

// Limits bounds what the read list of one call may contain.
type Limits struct {
	MaxChunks   int    // read chunks, the position-zero one included
	MaxSegments int    // of all chunks together
	MaxLength   uint64 // bytes of all chunks together
}

// ReadChunk is one read chunk: all entries of a read list with the same position.
type ReadChunk struct {
	// Position is the position in the XDR stream of the whole message, with all items in
	// it. 0 is the message itself.
	Position uint32
	// Length is in bytes, without roundup padding unless the sender included it.
	Length int
	// At is the position in the stream that arrived, without the chunks. It is valid after
	// Place.
	At int
	// first and count select its segments.
	first, count int
}

// ReadList is a parsed read list. It is reused from call to call, and refers to the
// header's read list until the next Parse.
type ReadList struct {
	Chunks   []ReadChunk
	segments []rpcrdma1.ReadSegment
}

// Parse groups reads into chunks in order of position, and checks them against each other
// and the limits. It sorts reads in place. Entries with the same position keep their order,
// which is the order of their bytes.
func (l *ReadList) Parse(reads []rpcrdma1.ReadSegment, lim Limits) error {
	l.Chunks, l.segments = l.Chunks[:0], reads
	if len(reads) > lim.MaxSegments {
		return l.fail(ErrSegmentCount)
	}
	slices.SortStableFunc(reads, func(a, b rpcrdma1.ReadSegment) int { return cmp.Compare(a.Position, b.Position) })
	var total uint64
	for i := range reads {
		s := &reads[i]
		if err := checkSegment(&s.Segment); err != nil {
			return l.fail(err)
		}
		if s.Position%xdr.Unit != 0 {
			return l.fail(ErrPosition)
		}
		if total += uint64(s.Length); total > lim.MaxLength {
			return l.fail(ErrTooLong)
		}
		if n := len(l.Chunks); n > 0 && l.Chunks[n-1].Position == s.Position {
			l.Chunks[n-1].Length += int(s.Length)
			l.Chunks[n-1].count++
			continue
		}
		if len(l.Chunks) == lim.MaxChunks {
			return l.fail(ErrChunkCount)
		}
		l.Chunks = append(l.Chunks, ReadChunk{Position: s.Position, Length: int(s.Length), first: i, count: 1})
	}
	return nil
}

func (l *ReadList) fail(err error) error {
	l.Chunks = l.Chunks[:0]
	return err
}

// checkSegment refuses a segment that exceeds the address space. Its last byte may be the last
// of the address space: no text forbids it.
func checkSegment(s *rpcrdma1.Segment) error {
	if s.Length > 0 && s.Offset+uint64(s.Length-1) < s.Offset {
		return ErrAddressWrap
	}
	return nil
}

// Long reports whether the message itself is in a chunk (position zero).
func (l *ReadList) Long() bool { return len(l.Chunks) > 0 && l.Chunks[0].Position == 0 }

// Items returns the chunks other than the position-zero one.
func (l *ReadList) Items() []ReadChunk {
	if l.Long() {
		return l.Chunks[1:]
	}
	return l.Chunks
}

// Place computes the position At of each item in a stream of streamLen bytes from its
// Position in the whole message: the stream lacks every earlier item, rounded up.
func (l *ReadList) Place(streamLen int) error {
	missing, last := int64(0), int64(0)
	items := l.Items()
	for i := range items {
		at := int64(items[i].Position) - missing
		if at < last {
			return ErrOverlap
		}
		if at > int64(streamLen) {
			return ErrPosition
		}
		items[i].At = int(at)
		last = at
		missing += int64(xdr.Padded(items[i].Length))
	}
	return nil
}

// Read is one RDMA Read: Length bytes from the peer's Addr with RKey to offset Off of the
// memory for chunk Chunk.
type Read struct {
	Chunk  int // index into Chunks
	Off    int
	Length int
	RKey   uint32
	Addr   uint64
}

// AppendReads appends the RDMA Reads that fetch all chunks. No Read is longer than maxRead
// bytes (at least 1). Segments without bytes need none.
func (l *ReadList) AppendReads(dst []Read, maxRead uint32) []Read {
	for c := range l.Chunks {
		ch := &l.Chunks[c]
		off := 0
		for i := ch.first; i < ch.first+ch.count; i++ {
			s := &l.segments[i]
			for done := uint32(0); done < s.Length; {
				n := min(s.Length-done, maxRead)
				dst = append(dst, Read{Chunk: c, Off: off, Length: int(n), RKey: s.Handle, Addr: s.Offset + uint64(done)})
				off += int(n)
				done += n
			}
		}
	}
	return dst
}

package chunk

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma1"

// Write is one RDMA Write: Length bytes from offset Off of source From (0 for Zeros), to
// the peer's Addr with RKey.
type Write struct {
	From   Source
	Off    int
	Length int
	RKey   uint32
	Addr   uint64
}

// Capacity returns how many bytes fit into the chunk's segments.
func Capacity(c rpcrdma1.WriteChunk) uint64 {
	var n uint64
	for i := range c {
		n += uint64(c[i].Length)
	}
	return n
}

// CheckWrite checks the segments of a write or reply chunk that a peer
// offered.
func CheckWrite(c rpcrdma1.WriteChunk) error {
	for i := range c {
		if err := checkSegment(&c[i]); err != nil {
			return err
		}
	}
	return nil
}

// Fill appends the RDMA Writes that put the pieces into c's segments, in order and without
// gaps. No Write is longer than maxWrite bytes. It sets the segments' lengths to what is
// written into each (RFC 8166 §3.4.6.1). If c is too small, it returns ErrTooSmall and
// leaves c unchanged.
func Fill(dst []Write, c rpcrdma1.WriteChunk, pieces []Piece, maxWrite uint32) ([]Write, error) {
	if uint64(Length(pieces)) > Capacity(c) {
		return dst, ErrTooSmall
	}
	seg, used := 0, uint32(0)
	for _, p := range pieces {
		for p.Len > 0 {
			for used == c[seg].Length {
				seg, used = seg+1, 0 // full: it keeps the offered length
			}
			n := min(uint64(p.Len), uint64(c[seg].Length-used), uint64(maxWrite))
			dst = append(dst, Write{
				From: p.From, Off: p.Off, Length: int(n),
				RKey: c[seg].Handle, Addr: c[seg].Offset + uint64(used),
			})
			if p.From != Zeros {
				p.Off += int(n)
			}
			p.Len -= int(n)
			used += uint32(n)
		}
	}
	if seg < len(c) {
		c[seg].Length = used
		Unused(c[seg+1:])
	}
	return dst, nil
}

// Part appends the RDMA Writes of bytes from to to of an item that fills c from its
// beginning. It does not change c. The item fits into c. No Write is longer than maxWrite
// bytes.
func Part(dst []Write, c rpcrdma1.WriteChunk, item Source, from, to int, maxWrite uint32) []Write {
	begin := 0 // of the segment, in the item
	for i := range c {
		s := &c[i]
		end := min(begin+int(s.Length), to)
		for at := max(from, begin); at < end; {
			n := min(end-at, int(maxWrite))
			dst = append(dst, Write{From: item, Off: at, Length: n, RKey: s.Handle, Addr: s.Offset + uint64(at-begin)})
			at += n
		}
		begin += int(s.Length)
	}
	return dst
}

// Used sets the lengths of a chunk to what n bytes fill of each segment (RFC 8166
// §3.4.6.1).
func Used(c rpcrdma1.WriteChunk, n int) {
	for i := range c {
		c[i].Length = uint32(min(int(c[i].Length), n))
		n -= int(c[i].Length)
	}
}

// Unused is Used for a chunk into which nothing was written.
func Unused(c rpcrdma1.WriteChunk) { Used(c, 0) }

// Returned checks a chunk that came back in a reply against the offered one, and returns
// how many bytes the peer wrote. The segments must be the same, none longer than offered,
// and filled in order without gaps.
func Returned(offered, got rpcrdma1.WriteChunk) (n int, err error) {
	if len(got) != len(offered) {
		return 0, ErrReturned
	}
	partial := false
	for i := range got {
		if got[i].Handle != offered[i].Handle || got[i].Offset != offered[i].Offset || got[i].Length > offered[i].Length {
			return 0, ErrReturned
		}
		if partial && got[i].Length != 0 {
			return 0, ErrReturned
		}
		partial = partial || got[i].Length < offered[i].Length
		n += int(got[i].Length)
	}
	return n, nil
}

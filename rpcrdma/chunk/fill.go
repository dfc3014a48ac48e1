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
// gaps, and sets the segments' lengths to what is written into each. The pieces fit into c. No
// Write is longer than maxWrite bytes.
func Fill(dst []Write, c rpcrdma1.WriteChunk, pieces []Piece, maxWrite uint32) []Write {
	at := 0
	for _, p := range pieces {
		dst = Part(dst, c, at, p, maxWrite)
		at += p.Len
	}
	Used(c, at)
	return dst
}

// Part appends the RDMA Writes that put a piece into c's segments from byte at of c on. It does
// not change c. The piece fits. No Write is longer than maxWrite bytes.
func Part(dst []Write, c rpcrdma1.WriteChunk, at int, p Piece, maxWrite uint32) []Write {
	end := 0 // of the segment, in c
	for i := range c {
		s := &c[i]
		for end += int(s.Length); at < end && p.Len > 0; {
			n := min(p.Len, end-at, int(maxWrite))
			dst = append(dst, Write{From: p.From, Off: p.Off, Length: n, RKey: s.Handle, Addr: s.Offset + uint64(at-end+int(s.Length))})
			at, p.Len = at+n, p.Len-n
			if p.From != Zeros {
				p.Off += n
			}
		}
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

package placement

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

const (
	// PageSize is the length and the alignment of our target segments.
	PageSize = 4096
	// plainMin is the least of our plain segment: headers and small calls.
	plainMin = 1024
	// LeastSize is the least size of a receive with a target segment.
	LeastSize = plainMin + PageSize
)

// Derive gives the structure of receives of size bytes: a plain segment of
// 1024 bytes, as many whole pages as there is room for, and what is left over
// added to the plain segment. It has no groups when there is no page.
func Derive(size uint32) rpcrdma2.Buffer {
	pages := (max(size, plainMin) - plainMin) / PageSize
	if pages == 0 {
		return rpcrdma2.Buffer{}
	}
	return rpcrdma2.Buffer{Length: size, Groups: []rpcrdma2.BufferGroup{
		{Count: 1, Length: size - pages*PageSize, Align: 4},
		{Count: pages, Length: PageSize, Align: PageSize, Flags: rpcrdma2.TargetableFlag},
	}}
}

// Start is where in page-aligned memory a receive of size bytes begins, so
// that the pages of what Derive gives are pages of that memory: it ends with
// one.
func Start(size int) int { return -size & (PageSize - 1) }

// target is a segment that items may be placed in.
type target struct {
	off, len int // in the receive
}

// Structure is that of receives, as far as items are placed in them. The
// zero Structure has no targets.
type Structure struct {
	length  int
	targets []target // in order
}

// Read gives the structure that a buffer says; ErrStructure when its lengths
// don't agree, or it is over our bounds. One without groups has no targets.
func Read(b *rpcrdma2.Buffer) (Structure, error) {
	s := Structure{length: int(min(b.Length, MaxLength+1))}
	if len(b.Groups) == 0 {
		return s, nil
	}
	if b.Length > MaxLength {
		return Structure{}, ErrStructure
	}
	off := uint64(0)
	for i := range b.Groups {
		g := &b.Groups[i]
		end := off + uint64(g.Count)*uint64(g.Length) // no overflow: both are 32 bits, off is MaxLength at most
		if end > uint64(b.Length) {
			return Structure{}, ErrStructure
		}
		if g.Flags&rpcrdma2.TargetableFlag != 0 && g.Count > 0 {
			if len(s.targets)+int(min(g.Count, MaxTargets+1)) > MaxTargets || g.Length == 0 || off%unit != 0 || g.Length%unit != 0 {
				return Structure{}, ErrStructure
			}
			for k := range uint64(g.Count) {
				s.targets = append(s.targets, target{off: int(off + k*uint64(g.Length)), len: int(g.Length)})
			}
		}
		off = end
	}
	if off != uint64(b.Length) {
		return Structure{}, ErrStructure
	}
	return s, nil
}

// unit is XDR's unit of alignment (RFC 4506 §3).
const unit = 4

// Targets is the number of target segments of one receive.
func (s *Structure) Targets() int { return len(s.targets) }

// Room is the number of bytes that the target segments of one receive hold,
// as far as they lie in its first limit bytes.
func (s *Structure) Room(limit int) int {
	n := 0
	for _, t := range s.targets {
		if t.off+t.len <= limit {
			n += t.len
		}
	}
	return n
}

package placement

import "github.com/rdmad/rdmad/rpcrdma/wire/rpcrdma2"

const (
	// PageSize is the length and the alignment of our target segments.
	PageSize = 4096
	// plainMin is the smallest plain segment, for headers and small calls.
	plainMin = 1024
	// LeastSize is the smallest receive with a target segment.
	LeastSize = plainMin + PageSize
)

// Derive returns the structure of receives of size bytes: a plain segment of 1024 bytes or
// more, then as many whole pages as fit. Without room for a page it has no groups.
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

// Start returns the offset in page-aligned memory at which a receive of size bytes begins,
// so that the pages of Derive's structure are pages of that memory: the receive ends with
// one.
func Start(size int) int { return -size & (PageSize - 1) }

// target is a segment into which items may be placed.
type target struct {
	off, len int // in the receive
}

// Structure is the structure of receives, as far as items are placed in them. The zero
// Structure has no targets.
type Structure struct {
	length  int
	targets []target // in order
}

// Read returns the structure that a buffer describes. It returns ErrStructure if the
// lengths disagree or a limit is exceeded. A buffer without groups has no targets.
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

// Targets returns the number of target segments of one receive.
func (s *Structure) Targets() int { return len(s.targets) }

// Room returns how many bytes the target segments in the first limit bytes of one receive
// hold.
func (s *Structure) Room(limit int) int {
	n := 0
	for _, t := range s.targets {
		if t.off+t.len <= limit {
			n += t.len
		}
	}
	return n
}

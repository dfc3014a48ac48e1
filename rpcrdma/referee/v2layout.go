package referee

import "github.com/rdmad/rdmad/rpcrdma/internal/goxdr"

// layout is the structure of a side's receive buffers (rtrext §7.2). It lists
// the segments that data may be placed in.
type layout struct {
	targets []target
	size    uint64
}

// target is a segment that data may be placed in.
type target struct{ start, length uint64 }

// maxTargets bounds the segments kept of a structure. A receive of 256 KiB has
// 64 pages.
const maxTargets = 512

// maxReceive bounds the length of a structure, in bytes. It is far above the
// longest Send.
const maxReceive = 1 << 31

// newLayout returns the layout that b describes. It returns nil if the
// structure is too long or has too many segments. Rules about placement are
// then silent.
func newLayout(b *goxdr.Xmrbs_buf) *layout {
	l := new(layout)
	for _, g := range b.Xmrbuf_groups {
		length := uint64(g.Xmrgrp_info.Xmrseg_length)
		if g.Xmrgrp_info.Xmrseg_flags&goxdr.XMRSFLAG_DDP != 0 {
			if uint64(len(l.targets))+uint64(g.Xmrgrp_count) > maxTargets {
				return nil
			}
			for i := range uint64(g.Xmrgrp_count) {
				l.targets = append(l.targets, target{l.size + i*length, length})
			}
		}
		if l.size += uint64(g.Xmrgrp_count) * length; l.size > maxReceive {
			return nil
		}
	}
	return l
}

// part is a byte range of one transmission.
type part struct {
	transmission int
	start, end   uint64
}

// parts returns where in a group an item of length bytes lies. The item begins
// at offset in the first segment of bsn and continues through the others. If it
// can't lie there, why says the reason.
func (l *layout) parts(offset uint32, bsn []uint32, length uint32) (p []part, why string) {
	if len(l.targets) == 0 {
		return nil, "the receiver has no segments for data"
	}
	left, at := uint64(length), uint64(offset)
	for _, n := range bsn {
		if left == 0 {
			break
		}
		t := l.targets[int(n)%len(l.targets)]
		if at >= t.length {
			return nil, "the offset is not in the segment"
		}
		took := min(left, t.length-at)
		p = append(p, part{int(n) / len(l.targets), t.start + at, t.start + at + took})
		left, at = left-took, 0
	}
	if left > 0 {
		return nil, "the item is longer than its segments"
	}
	return p, ""
}

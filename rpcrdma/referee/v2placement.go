package referee

import (
	"cmp"
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

// item2 is one xmddp_mitem (rtrext §6.2).
type item2 struct {
	disp, length uint32
	where        goxdr.Xmddp_type
	segments     []segment // of EXRW
	offset       uint32    // of TBSN, as is bsn
	bsn          []uint32
}

// excised reports whether the data is outside the payload stream.
func (i *item2) excised() bool {
	return i.where == goxdr.XMDTYPE_EXRW || i.where == goxdr.XMDTYPE_TBSN
}

func items2(list []goxdr.Xmddp_mitem) []item2 {
	out := make([]item2, len(list))
	for n := range list {
		x := &list[n]
		i := item2{disp: x.Xmdmi_disp, length: x.Xmdmi_length, where: x.Xmdmi_where.Type}
		switch i.where {
		case goxdr.XMDTYPE_EXRW:
			i.segments = decodedSegments(*x.Xmdmi_where.Xmdl_ex())
		case goxdr.XMDTYPE_TBSN:
			i.offset, i.bsn = x.Xmdmi_where.Xmdl_tbsn().Xmdl_offset, x.Xmdmi_where.Xmdl_tbsn().Xmdl_bsnum
		}
		out[n] = i
	}
	return out
}

// direction2 is one xmddp_rsditem (rtrext §7.4).
type direction2 struct {
	least     uint32 // xmdrsdi_minlen
	how       goxdr.Xmddp_type
	threshold uint32 // of BYSIZE
	segments  []segment
	windows   []*window
}

func directions2(ranges []goxdr.Xmddp_rsdset) (out []direction2) {
	for i := range ranges {
		for j := range ranges[i].Xmdrsds_items {
			x := &ranges[i].Xmdrsds_items[j]
			d := direction2{least: x.Xmdrsdi_minlen, how: x.Xmdrsdi_loc.Type}
			switch d.how {
			case goxdr.XMDTYPE_EXRW:
				d.segments = decodedSegments(*x.Xmdrsdi_loc.Xmdrsdl_ex())
			case goxdr.XMDTYPE_CHOICE:
				d.segments = decodedSegments(*x.Xmdrsdi_loc.Xmdrsdl_chex())
			case goxdr.XMDTYPE_BYSIZE:
				b := x.Xmdrsdi_loc.Xmdrsdl_bysize()
				d.threshold, d.segments = b.Xmdrsdl_dsdov, decodedSegments(b.Xmdrsdl_bsex)
			}
			out = append(out, d)
		}
	}
	return out
}

// ranges judges the ranges of directions.
func (r *Referee) ranges(h *header2, list []goxdr.Xmddp_rsdset) {
	var end uint32
	for i, x := range list {
		begin := x.Xmdrsds_range.Xmdrsdr_begin
		if begin > x.Xmdrsds_range.Xmdrsdr_end || i > 0 && (begin < end || begin <= list[i-1].Xmdrsds_range.Xmdrsdr_begin) {
			r.report("placement.ranges", h.from, "XID %#x: range %d is from %d to %d, the one before it ends at %d",
				h.xid, i, begin, x.Xmdrsds_range.Xmdrsdr_end, end)
			return
		}
		end = x.Xmdrsds_range.Xmdrsdr_end
	}
}

// ordered judges the positions of a group's items in the virtual stream. It
// reports whether all are correct.
func (r *Referee) ordered(g *group2) bool {
	var end, excised uint64 // in the virtual stream
	by, xid := g.lead.from, g.lead.xid
	for n := range g.items {
		i := &g.items[n]
		if !i.excised() {
			continue
		}
		at := uint64(i.disp)
		switch {
		case at%4 != 0:
			r.report("placement.position", by, "XID %#x: item %d is at %d", xid, n, at)
			return false
		case at < end:
			r.report("placement.order", by, "XID %#x: item %d is at %d, the one before it ends at %d", xid, n, at, end)
			return false
		case at-excised > g.length:
			r.report("placement.order", by, "XID %#x: item %d is at %d of a virtual stream that has %d bytes before it", xid, n, at, g.length+excised)
			return false
		case i.where == goxdr.XMDTYPE_EXRW && total(i.segments) < uint64(i.length):
			r.report("placement.source", by, "XID %#x: item %d has %d bytes in segments of %d", xid, n, i.length, total(i.segments))
			return false
		}
		excised += roundup(uint64(i.length))
		end = at + roundup(uint64(i.length))
	}
	return true
}

// targeted judges the places of a group's items in the receiver's buffers. Any
// structure that the sender may act on is accepted.
func (r *Referee) targeted(g *group2) {
	if !g.placed() || r.v2.missed {
		return
	}
	var why string
	if !r.v2.side(g.lead.from.Peer()).traits.any(g.known, func(t traits) bool {
		if t.unclear {
			return true
		}
		why = g.lands(t.structure)
		return why == ""
	}) {
		r.report("placement.target", g.lead.from, "XID %#x: %s", g.lead.xid, why)
	}
}

// lands returns why the items can't be at their places in buffers with the
// layout l, or "".
func (g *group2) lands(l *layout) string {
	if l == nil {
		return "the receiver told no structure of its buffers"
	}
	var all []part
	for _, i := range g.items {
		if i.where != goxdr.XMDTYPE_TBSN {
			continue
		}
		if i.offset%4 != 0 {
			return "an offset is no multiple of 4"
		}
		parts, why := l.parts(i.offset, i.bsn, i.length)
		if why != "" {
			return why
		}
		all = append(all, parts...)
	}
	slices.SortFunc(all, func(a, b part) int {
		return cmp.Or(a.transmission-b.transmission, cmp.Compare(a.start, b.start))
	})
	for n, p := range all {
		switch {
		case p.transmission >= len(g.sent):
			return "a segment is in a transmission that does not belong to the group"
		case p.end > g.sent[p.transmission].length:
			return "a transmission ends before its data does"
		case p.start < g.sent[p.transmission].used:
			return "the header or the payload stream is where the data is"
		case n > 0 && all[n-1].transmission == p.transmission && p.start < all[n-1].end:
			return "two items are in the same place"
		}
	}
	return ""
}

// directed judges the items of a response against the directions of its
// request (rtrext §7.4).
func (r *Referee) directed(g *group2, h *header2, c *call) {
	if len(g.items) != len(c.v2.directions) {
		r.report("placement.count", h.from, "XID %#x: %d items answer %d directions", h.xid, len(g.items), len(c.v2.directions))
		return
	}
	for n := range g.items {
		i, d := &g.items[n], &c.v2.directions[n]
		switch {
		case !d.allows(i):
			r.report("placement.answer", h.from, "XID %#x: item %d of %d bytes is %v, the direction is %v", h.xid, n, i.length, i.where, d.how)
		case i.excised() && i.length < d.least:
			r.report("placement.minlen", h.from, "XID %#x: item %d has %d bytes, the direction is for %d or more", h.xid, n, i.length, d.least)
		case i.where == goxdr.XMDTYPE_EXRW:
			r.filled(h, n, i, d)
		}
	}
}

// allows reports whether the direction allows the place of a result.
func (d *direction2) allows(i *item2) bool {
	switch i.where {
	case goxdr.XMDTYPE_TOOSHORT, goxdr.XMDTYPE_NOITEM:
		return true
	case goxdr.XMDTYPE_EXRW:
		return d.how == goxdr.XMDTYPE_EXRW || d.how == goxdr.XMDTYPE_CHOICE || d.how == goxdr.XMDTYPE_BYSIZE && i.length >= d.threshold
	case goxdr.XMDTYPE_TBSN:
		return d.how == goxdr.XMDTYPE_TBSN || d.how == goxdr.XMDTYPE_CHOICE || d.how == goxdr.XMDTYPE_BYSIZE && i.length < d.threshold
	}
	return false
}

// filled judges a result that RDMA Write placed. Its segments are the first
// segments of the direction, each with its used or its offered length.
func (r *Referee) filled(h *header2, n int, i *item2, d *direction2) {
	if len(i.segments) > len(d.windows) {
		r.report("placement.segments", h.from, "XID %#x: item %d is in %d segments of %d", h.xid, n, len(i.segments), len(d.windows))
		return
	}
	left := uint64(i.length)
	for k, s := range i.segments {
		w := d.windows[k]
		if s.stag != w.stag || s.offset != w.offset || s.length > w.length {
			r.report("placement.segments", h.from, "XID %#x: item %d is in %d bytes of STag %#x at %#x, the direction named %d of %#x at %#x",
				h.xid, n, s.length, s.stag, s.offset, w.length, w.stag, w.offset)
			return
		}
		used := min(left, uint64(s.length))
		left -= used
		if r.sees(h.from) && !w.written.holds(used) {
			r.report("placement.unwritten", h.from, "XID %#x: item %d has %d bytes in segment %d, which RDMA Write has not filled", h.xid, n, used, k)
			return
		}
	}
}

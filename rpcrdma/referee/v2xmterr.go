package referee

import (
	"encoding/binary"

	"github.com/rdmad/rdmad/rpcrdma/internal/goxdr"
)

// xmtErred reports whether a message of version 2 is an XMTERR, whatever the
// rest of it holds.
func xmtErred(b []byte) bool {
	return len(b) >= prefixSize+8 && binary.BigEndian.Uint32(b[12:]) == uint32(goxdr.RDMA2_OPTIONAL) &&
		binary.BigEndian.Uint32(b[prefixSize+4:]) == opXmtErr
}

// xmtErr judges XMTERR. The groups that it names are over.
func (r *Referee) xmtErr(h *header2, x *goxdr.Optxmt_err) {
	peer := r.v2.side(h.from.Peer())
	named := []goxdr.Xms_id{x.Optxe_bad}
	if x.Optxe_lead != nil {
		named = append(named, *x.Optxe_lead)
	}
	for _, id := range named {
		if g := peer.group; g != nil && g.lead.xid == id.Xmsi_xid {
			g.over = true
		}
		if !peer.recent.has(func(s sent2) bool { return s.names(id, x.Optxe_info.Optxe_which) }) {
			r.report("xmterr.unknown", h.from, "XID %#x: no transmission %d of XID %#x, %v, was sent", h.xid, id.Xmsi_seq, id.Xmsi_xid, id.Xmsi_dir)
		}
	}
	r.wrongValue(h, &x.Optxe_info)
	r.refused(h, named)
}

// names reports whether an XMTERR means s by id. If the number in the group is
// wrong, no specification says which number id holds.
func (s sent2) names(id goxdr.Xms_id, which goxdr.Optx_err) bool {
	if s.xid != id.Xmsi_xid {
		return false
	}
	return s.any || s.dir == id.Xmsi_dir && (s.seq == id.Xmsi_seq || which == goxdr.OPTXERR_BADSEQ)
}

// wrongValue judges the value that XMTERR reports as wrong.
func (r *Referee) wrongValue(h *header2, x *goxdr.Optx_info) {
	var e *goxdr.Optx_expected
	switch x.Optxe_which {
	case goxdr.OPTXERR_BADHMT:
		e = x.Optxi_hmt()
	case goxdr.OPTXERR_BADOMT:
		e = x.Optxi_omt()
	case goxdr.OPTXERR_BADSEQ:
		e = x.Optxi_seq()
	case goxdr.OPTXERR_BADXID:
		e = x.Optxi_xid()
	case goxdr.OPTXERR_BADPL: // a length within the range may still be no multiple of 4
		p := x.Optxi_pl()
		if v := p.Optxi_value; v >= p.Optxi_min && v <= p.Optxi_max && v%4 == 0 {
			r.report("xmterr.values", h.from, "XID %#x: BADPL of %d, which is from %d to %d", h.xid, v, p.Optxi_min, p.Optxi_max)
		}
	}
	if e != nil && e.Optxi_expect == e.Optxi_current {
		r.report("xmterr.values", h.from, "XID %#x: %v, and %d was expected and came", h.xid, x.Optxe_which, e.Optxi_current)
	}
}

// refused closes the call that XMTERR ends: a call of the XMTERR's receiver, or
// a call of its sender whose response was wrong. XMTERR has that call's XID
// (wire reference §5.2). Another call that it names may be over or not, as may
// be one that has no transmission of that number.
func (r *Referee) refused(h *header2, named []goxdr.Xms_id) {
	for _, id := range named {
		d := r.dirs[h.from.Peer()]
		if id.Xmsi_dir == goxdr.REPLY {
			d = r.dirs[h.from]
		}
		c := d.calls[id.Xmsi_xid]
		switch {
		case c == nil:
		case c.xid == h.xid && c.vers == h.vers && !c.doubtful && uint64(id.Xmsi_seq) < max(c.units, 1):
			r.answer2(d, c, h.message)
		default:
			r.doubt2(d, c, h.message)
		}
	}
	// An XMTERR that answers a call but does not name it may end that call as
	// well.
	if c := r.dirs[h.from.Peer()].calls[h.xid]; c != nil && h.dir == goxdr.REPLY {
		r.doubt2(r.dirs[h.from.Peer()], c, h.message)
	}
}

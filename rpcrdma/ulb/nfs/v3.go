package nfs

import (
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// maxPath is the assumed maximum length of a symbolic link. Only version 2 defines a
// maximum. This is PATH_MAX of common servers.
const maxPath = 4096

// version3 is NFS version 3 (RFC 1813 §3.3).
func version3() ulb.Binding {
	var (
		handle   = opaque(64)
		name     = opaque(noLimit)
		path     = walk.Item(noLimit)
		attrs    = fixed(84)
		postAttr = maybe(attrs)
		postFH   = maybe(handle)
		wcc      = seq(maybe(fixed(24)), postAttr)
		setTime  = union(void, at(2, u64)) // SET_TO_CLIENT_TIME
		sattr    = seq(maybe(u32), maybe(u32), maybe(u32), maybe(u64), setTime, setTime)
		dirOp    = seq(handle, name)
		verf     = u64
		how      = union(nil, at(0, sattr), at(1, sattr), at(2, verf))
		device   = seq(sattr, u64)
		node     = union(void, at(3, device), at(4, device), at(6, sattr), at(7, sattr))
		made     = union(wcc, at(0, postFH, postAttr, wcc))
		entry    = seq(u64, name, u64)
		plus     = seq(entry, postAttr, postFH)
		// rtmax, rtpref, rtmult; wtmax, wtpref, wtmult; dtpref; what is no limit
		// for a call (RFC 1813 §3.3.19)
		info = seq(limit, limit, u32, limit, limit, u32, limit, fixed(20))
	)
	// both is a union whose arms all begin with always.
	both := func(always *Type, ok ...*Type) *Type {
		return union(always, at(0, seq(append([]*Type{always}, ok...)...)))
	}
	return ulb.Binding{Name: "NFSv3", Program: program, Version: 3, Procs: []ulb.Proc{
		0:  proc(void, void),
		1:  proc(handle, status(attrs)),
		2:  proc(seq(handle, sattr, maybe(u64)), both(wcc)),
		3:  proc(dirOp, union(postAttr, at(0, handle, postAttr, postAttr))),
		4:  proc(seq(handle, u32), both(postAttr, u32)),
		5:  proc(seq(handle, mark(ulb.ExpectPath, maxPath)), eligible(both(postAttr, path))),
		6:  proc(seq(handle, u64, word(ulb.Expect)), eligible(both(postAttr, u32, boolean, walk.Item(noLimit)))),
		7:  proc(seq(handle, u64, u32, u32, walk.Item(noLimit)), both(wcc, u32, u32, verf)),
		8:  proc(seq(dirOp, how), made),
		9:  proc(seq(dirOp, sattr), made),
		10: proc(seq(dirOp, sattr, path), made),
		11: proc(seq(dirOp, node), made),
		12: proc(dirOp, both(wcc)),
		13: proc(dirOp, both(wcc)),
		14: proc(seq(dirOp, dirOp), both(seq(wcc, wcc))),
		15: proc(seq(handle, dirOp), both(seq(postAttr, wcc))),
		// count and maxcount bound the whole of the results
		// (RFC 1813 §3.3.16, §3.3.17)
		16: proc(seq(handle, u64, verf, word(ulb.Count)), both(postAttr, verf, guess(4, list(entry)), boolean)),
		17: proc(seq(handle, u64, verf, u32, word(ulb.Count)), both(postAttr, verf, guess(4, list(plus)), boolean)),
		18: proc(handle, both(postAttr, fixed(52))),
		19: proc(seq(handle, mark(ulb.Limited, 0)), both(postAttr, info)),
		20: proc(handle, both(postAttr, u32, u32, boolean, boolean, boolean, boolean)),
		21: proc(seq(handle, u64, u32), both(wcc, verf)),
	}}
}

package nfs

import (
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// program is the NFS program number.
const program = 100003

// maxData2 is the most data of a READ or WRITE (RFC 1094 §2.3.1), maxPath2 of
// a symbolic link.
const (
	maxData2 = 8192
	maxPath2 = 1024
)

// version2 is NFS version 2 (RFC 1094 §2.2).
func version2() ulb.Binding {
	var (
		handle   = fixed(32)
		name     = opaque(255)
		attrs    = fixed(17 * 4)
		sattr    = fixed(8 * 4)
		attrStat = status(attrs)
		dirOp    = seq(handle, name)
		dirOpRes = status(handle, attrs)
		stat     = u32
		entry    = seq(u32, name, u32)
		nothing  = proc(void, void)
	)
	return ulb.Binding{Name: "NFSv2", Program: program, Version: 2, Procs: []ulb.Proc{
		0:  nothing,
		1:  proc(handle, attrStat),
		2:  proc(seq(handle, sattr), attrStat),
		3:  nothing, // ROOT
		4:  proc(dirOp, dirOpRes),
		5:  proc(seq(handle, mark(ulb.ExpectPath, maxPath2)), eligible(status(walk.Item(maxPath2)))),
		6:  proc(seq(handle, u32, word(ulb.Expect), u32), eligible(status(attrs, walk.Item(maxData2)))),
		7:  nothing, // WRITECACHE
		8:  proc(seq(handle, u32, u32, u32, walk.Item(maxData2)), attrStat),
		9:  proc(seq(dirOp, sattr), dirOpRes),
		10: proc(dirOp, stat),
		11: proc(seq(dirOp, dirOp), stat),
		12: proc(seq(handle, dirOp), stat),
		13: proc(seq(dirOp, walk.Item(maxPath2), sattr), stat),
		14: proc(seq(dirOp, sattr), dirOpRes),
		15: proc(dirOp, stat),
		// count bounds the entries (RFC 1094 §2.2.17)
		16: proc(seq(handle, u32, word(ulb.Count)), status(guess(4, list(entry)), boolean)),
		17: proc(handle, status(fixed(5*4))),
	}}
}

func proc(args, results *Type) ulb.Proc { return ulb.Proc{Args: args, Results: results} }

// eligible returns the results of a procedure that has a DDP-eligible one.
func eligible(results *Type) *Type { return seq(mark(ulb.Expect, 0), results) }

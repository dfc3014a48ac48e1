package nfs

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// version4 is NFS version 4 with all minor versions. They share one number space of
// operations, and later versions do not change earlier operations.
func version4() ulb.Binding {
	args, results := compound(slices.Concat(state(), sessions(), copies()), u32)
	return ulb.Binding{Name: "NFSv4", Program: program, Version: 4, Procs: []ulb.Proc{
		0: proc(void, void),
		1: proc(args, results),
	}}
}

// callback returns the callback program of version 4. The RFCs give it version 1. Linux
// clients also accept 4.
func callback() []ulb.Binding {
	args, results := compound(callbacks(), seq(u32, u32))
	procs := []ulb.Proc{0: proc(void, void), 1: proc(args, results)}
	return []ulb.Binding{
		{Name: "NFSv4 callback", Program: ulb.CallbackBase, Version: 1, Procs: procs},
		{Name: "NFSv4 callback", Program: ulb.CallbackBase, Version: 4, Procs: procs},
	}
}

// compound makes the arguments and results of COMPOUND or CB_COMPOUND. versions are the
// fields between tag and operations.
//
// The result of an operation counts once the operation is found in the arguments. The tag
// comes back unchanged.
func compound(ops []op, versions *Type) (args, results *Type) {
	in, out := make([]arm, 0, len(ops)), make([]arm, 0, len(ops))
	for _, o := range ops {
		grow := mark(ulb.Grow, 4+o.results.Max())
		in = append(in, at(o.number, seq(grow, o.args)))
		out = append(out, at(o.number, o.results))
	}
	args = seq(walk.Opaque(noLimit, ulb.Grow), versions, walk.Array(MaxOperations, walk.Union(ulb.Operation, nil, in...), 0))
	results = seq(u32, guess(8, opaque(noLimit)), guess(4, walk.Array(MaxOperations, walk.Union(ulb.Operation, nil, out...), 0)))
	return args, results
}

// callbacks are nfs_cb_argop4 and nfs_cb_resop4 (RFC 7531, RFC 5662, RFC 7863).
func callbacks() []op {
	var (
		recall    = union(nil, at(1, handle4, u64, u64, stateid), at(2, fixed(16)), at(3, void))
		changes   = array(noLimit, seq(bitmap, body))
		referring = array(noLimit, seq(session, array(noLimit, fixed(8))))
		offloaded = union(u64, at(0, written))
	)
	return []op{
		{3, seq(handle4, wanted), status(fattr)}, // CB_GETATTR
		{4, seq(stateid, boolean, handle4), u32}, // CB_RECALL
		{5, seq(u32, u32, boolean, recall), u32}, // CB_LAYOUTRECALL
		{6, seq(stateid, handle4, changes), u32}, // CB_NOTIFY
		{7, seq(handle4, delegation), u32},       // CB_PUSH_DELEG
		{8, seq(u32, bitmap), u32},               // CB_RECALL_ANY
		{9, seq(u32, bitmap), u32},               // CB_RECALLABLE_OBJ_AVAIL
		{10, u32, u32},                           // CB_RECALL_SLOT
		{11, seq(session, u32, u32, u32, boolean, referring), status(session, fixed(4*4))}, // CB_SEQUENCE
		{12, seq(boolean, boolean), u32},            // CB_WANTS_CANCELLED
		{13, seq(handle4, owner), u32},              // CB_NOTIFY_LOCK
		{14, changes, u32},                          // CB_NOTIFY_DEVICEID
		{15, seq(handle4, stateid, offloaded), u32}, // CB_OFFLOAD
		{opIllegal, void, u32},
	}
}

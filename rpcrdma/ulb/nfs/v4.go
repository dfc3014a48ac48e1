package nfs

import (
	"slices"

	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// version4 is NFS version 4 with all minor versions. They share one number space of
// operations, and later versions do not change earlier operations.
func version4() ulb.Binding {
	args, results := compound(slices.Concat(state(), sessions(), copies()))
	return ulb.Binding{Name: "NFSv4", Program: program, Version: 4, Procs: []ulb.Proc{
		0: proc(void, void),
		1: proc(args, results),
	}}
}

// compound makes the arguments and results of COMPOUND.
//
// The result of an operation counts once the operation is found in the arguments. The tag
// comes back unchanged.
func compound(ops []op) (args, results *Type) {
	in, out := make([]arm, 0, len(ops)), make([]arm, 0, len(ops))
	for _, o := range ops {
		grow := mark(ulb.Grow, 4+o.results.Max())
		in = append(in, at(o.number, seq(grow, o.args)))
		out = append(out, at(o.number, o.results))
	}
	args = seq(walk.Opaque(noLimit, ulb.Grow), u32, walk.Array(MaxOperations, walk.Union(ulb.Operation, nil, in...), 0))
	results = seq(u32, guess(8, opaque(noLimit)), guess(4, walk.Array(MaxOperations, walk.Union(ulb.Operation, nil, out...), 0)))
	return args, results
}

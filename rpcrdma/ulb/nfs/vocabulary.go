package nfs

import (
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// The types and constructors in which the tables are written.
type (
	// Type is the layout of an XDR type.
	Type = walk.Type
	arm  = walk.Arm
)

var (
	seq   = walk.Seq
	fixed = walk.Fixed
	word  = walk.Word
	mark  = walk.Mark
	list  = walk.List
	guess = walk.Guess
	maybe = walk.Optional

	void    = fixed(0)
	u32     = fixed(4) // integers and enumerations that decide nothing
	u64     = fixed(8)
	boolean = walk.Bool()
	limit   = word(ulb.Data) // for one call, announced by a server
)

const noLimit = walk.NoLimit

func opaque(limit int) *Type           { return walk.Opaque(limit, 0) }
func array(limit int, e *Type) *Type   { return walk.Array(limit, e, 0) }
func union(o *Type, arms ...arm) *Type { return walk.Union(0, o, arms...) }

// on makes the arms of a union that share a type.
func on(t *Type, values ...uint32) []arm {
	arms := make([]arm, len(values))
	for i, v := range values {
		arms[i] = at(v, t)
	}
	return arms
}

// at returns the arm of a union for one discriminant.
func at(value uint32, fields ...*Type) arm { return arm{Value: value, Type: seq(fields...)} }

// status returns the union that most results are: success, or nothing but a status.
func status(ok ...*Type) *Type { return union(void, at(0, ok...)) }

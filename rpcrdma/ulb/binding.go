package ulb

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/oncrpc"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// Tags that the tables of a Binding use.
const (
	// Grow (arguments): the reply may be larger by this many bytes.
	Grow walk.Tag = iota + 1
	// Grow4 and Grow16: by four and sixteen times this many bytes.
	Grow4
	Grow16
	// Count (arguments): Grow for a word with the most that the caller accepts. It may be
	// lowered: the server then returns less.
	Count
	// Wanted (arguments): Grow for the attributes that a call asks for. walk.Watched means
	// that limits are among them.
	Wanted
	// Limited is a mark in arguments whose results have limits.
	Limited
	// Expect: in arguments, the reply may have a DDP-eligible result of at most this many
	// bytes. In results, it marks where that result is. Both are in the order of the
	// results.
	Expect
	// Data (results) is a limit for the data of one call, in bytes. DataHigh and DataLow
	// are the words of a 64-bit limit.
	Data
	DataHigh
	DataLow
	// Message and Operations are the limits of a session's calls: bytes of an RPC message
	// with its header, and operations of a COMPOUND.
	Message
	Operations
	// BackCall and BackReply are Message for the session's back channel.
	BackCall
	BackReply
	// ExpectPath (arguments): Expect for the target of a symbolic link, which is usually
	// much shorter.
	ExpectPath
	// Session is csa_flags of CREATE_SESSION, and csr_flags of its result.
	Session
	// Bind is bctsr_dir, a result of BIND_CONN_TO_SESSION.
	Bind
	// Operation is the number of an operation of a COMPOUND. An unknown number is
	// ErrUnknown.
	Operation
)

// Unknown is a MaxReply that the binding cannot determine.
const Unknown = -1

// Proc is the binding of a procedure.
type Proc struct {
	// Args and Results are the layouts after the headers of the call and the successful
	// reply. A procedure without a binding has none.
	Args, Results *walk.Type
	// maxReply is the fixed part of the estimate, which does not depend on arguments.
	maxReply int
	// guarded is Args inside RPCSEC_GSS with service integrity, with the checksum.
	guarded *walk.Type
}

// Binding is the upper-layer binding of one version of a program.
type Binding struct {
	Name             string
	Program, Version uint32
	// Procs are the procedures by number.
	Procs []Proc
}

// proc returns a procedure, or nil if it has no binding.
func (b *Binding) proc(n uint32) *Proc {
	if b == nil || n >= uint32(len(b.Procs)) || b.Procs[n].Args == nil {
		return nil
	}
	return &b.Procs[n]
}

// Registry holds the bindings by program and version.
type Registry struct {
	bindings []Binding
}

// NewRegistry makes a registry. It panics if there are two bindings for the same version of
// a program, or a procedure has arguments but no results.
func NewRegistry(bindings ...Binding) *Registry {
	r := &Registry{}
	for _, b := range bindings {
		if r.Lookup(b.Program, b.Version) != nil {
			panic(fmt.Sprintf("ulb: program %d version %d bound twice", b.Program, b.Version))
		}
		procs := make([]Proc, len(b.Procs))
		for i, p := range b.Procs {
			if p.Args != nil {
				p.maxReply = p.Results.Max()
				p.guarded = walk.Seq(walk.Fixed(gssBodyHead), p.Args, walk.Opaque(oncrpc.MaxAuthBody, 0))
			}
			procs[i] = p
		}
		b.Procs = procs
		r.bindings = append(r.bindings, b)
	}
	return r
}

// Lookup returns a binding, or nil if there is none. Then nothing is DDP-eligible.
func (r *Registry) Lookup(program, version uint32) *Binding {
	for i := range r.bindings {
		if b := &r.bindings[i]; b.Program == program && b.Version == version {
			return b
		}
	}
	return nil
}

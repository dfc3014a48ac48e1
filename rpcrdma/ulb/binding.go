package ulb

import (
	"fmt"

	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// Tags that the tables of a Binding use.
const (
	// Grow (arguments): the reply may be larger by this many bytes.
	Grow walk.Tag = iota + 1
	// Grow4 and Grow16: by four and sixteen times this many bytes.
	Grow4
	Grow16
	// Count (arguments): Grow for a word that says how much the caller takes at
	// most. A smaller one is allowed: the server then returns less.
	Count
	// Wanted (arguments): Grow for the attributes that a call asks for. With
	// walk.Watched, limits are among them.
	Wanted
	// Limited is a mark in arguments whose results have limits.
	Limited
	// Expect: in arguments, the reply may have a DDP-eligible result of at
	// most this many bytes; in results, here it would be. Both in the order of
	// the results.
	Expect
	// Data (results) is a limit for the data of one call, in bytes. DataHigh
	// and DataLow are the words of one of 64 bits.
	Data
	DataHigh
	DataLow
	// Message and Operations are the limits of a session's calls: bytes of an
	// RPC message with its header, operations of a COMPOUND.
	Message
	Operations
	// BackCall and BackReply are Message for the session's back channel.
	BackCall
	BackReply
	// ExpectPath (arguments): Expect for the target of a symbolic link, which
	// is mostly much shorter.
	ExpectPath
	// Session is csa_flags of CREATE_SESSION, and csr_flags of its result.
	Session
	// Bind is bctsr_dir, a result of BIND_CONN_TO_SESSION.
	Bind
	// Confirm is a mark in the successful result of SETCLIENTID.
	Confirm
	// Control is a mark in the successful result of BACKCHANNEL_CTL.
	Control
	// CallbackProgram is the program number for callbacks that a client chose.
	CallbackProgram
	// Ident is callback_ident of SETCLIENTID.
	Ident
	// Operation is the number of an operation of a COMPOUND. One without an
	// arm is ErrUnknown.
	Operation
)

// CallbackBase is the program number under which the bindings of callbacks
// stand in a Registry (NFS4_CALLBACK, RFC 7531); clients choose others.
const CallbackBase = 0x40000000

// Unknown is a MaxReply that the binding can't tell.
const Unknown = -1

// Proc is the binding of a procedure.
type Proc struct {
	// Args and Results are what the call and the successful reply have after
	// their headers. A procedure that is not bound has none.
	Args, Results *walk.Type
	// maxReply is the part of the estimate that no argument changes.
	maxReply int
	// guarded is Args as RPCSEC_GSS protects them with service integrity.
	guarded *walk.Type
}

// Binding is the upper-layer binding of one version of a program.
type Binding struct {
	Name             string
	Program, Version uint32
	// Procs are the procedures by number.
	Procs []Proc
}

// proc finds a procedure, nil when it is not bound.
func (b *Binding) proc(n uint32) *Proc {
	if b == nil || n >= uint32(len(b.Procs)) || b.Procs[n].Args == nil {
		return nil
	}
	return &b.Procs[n]
}

// Registry is the bindings by program and version.
type Registry struct {
	bindings []Binding
}

// NewRegistry makes a registry. Two bindings for the same version of a
// program, and a procedure with arguments but no results, are the caller's
// mistake: it panics.
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
				p.guarded = walk.Seq(walk.Fixed(gssBodyHead), p.Args)
			}
			procs[i] = p
		}
		b.Procs = procs
		r.bindings = append(r.bindings, b)
	}
	return r
}

// Lookup finds a binding, nil when there is none: then nothing is
// DDP-eligible.
func (r *Registry) Lookup(program, version uint32) *Binding {
	for i := range r.bindings {
		if b := &r.bindings[i]; b.Program == program && b.Version == version {
			return b
		}
	}
	return nil
}

package nfs

import (
	"github.com/rdmad/rdmad/rpcrdma/ulb"
	"github.com/rdmad/rdmad/rpcrdma/ulb/walk"
)

// Programs related to NFS. None has DDP-eligible data. Their arguments are not walked, and
// the tables of their results only give their size.
const (
	mountProgram = 100005
	nlmProgram   = 100021
	nsmProgram   = 100024
)

// maxObject is the largest netobj of NLM (RFC 1813 §6.1.4).
const maxObject = 1024

// plain is a procedure with results of a known size, unbounded one with results of any
// size.
func plain(results *Type) ulb.Proc { return proc(walk.Rest(), results) }

func unbounded() ulb.Proc { return plain(walk.Rest()) }

// mount is MOUNT versions 1 to 3 (RFC 1094 appendix A, RFC 1813 appendix I).
func mount() []ulb.Binding {
	procs := func(mnt *Type) []ulb.Proc {
		return []ulb.Proc{
			0: plain(void),
			1: plain(mnt),
			2: unbounded(), // DUMP
			3: plain(void),
			4: plain(void),
			5: unbounded(), // EXPORT
		}
	}
	first := status(fixed(32))
	old := append(procs(first), unbounded()) // EXPORTALL
	third := status(opaque(64), guess(4+4*64, array(noLimit, u32)))
	return []ulb.Binding{
		{Name: "MOUNTv1", Program: mountProgram, Version: 1, Procs: old},
		// PATHCONF, of the Open Group's Protocols for Interworking: 13 short fields
		{Name: "MOUNTv2", Program: mountProgram, Version: 2, Procs: append(old[:7:7], plain(guess(64, walk.Rest())))},
		{Name: "MOUNTv3", Program: mountProgram, Version: 3, Procs: procs(third)},
	}
}

// nlm returns the Network Lock Manager, versions 1 and 3 with offsets of 32 bits,
// version 4 with 64 (RFC 1813 appendix II). Version 1 ends before SHARE.
func nlm() []ulb.Binding {
	versions := func(version uint32, name string, offset *Type) ulb.Binding {
		object := opaque(maxObject)
		result := seq(object, u32)
		holder := seq(boolean, u32, object, offset, offset)
		test := seq(object, union(void, at(1, holder))) // NLM_DENIED
		share := seq(object, u32, u32)
		b := ulb.Binding{Name: name, Program: nlmProgram, Version: version, Procs: []ulb.Proc{
			0: plain(void),
			1: plain(test),
			2: plain(result), // LOCK, CANCEL, UNLOCK, GRANTED
			3: plain(result),
			4: plain(result),
			5: plain(result),
		}}
		for len(b.Procs) < 16 { // messages and their answers, as calls
			b.Procs = append(b.Procs, plain(void))
		}
		if version > 1 {
			b.Procs = append(b.Procs, make([]ulb.Proc, 4)...)
			b.Procs = append(b.Procs, plain(share), plain(share), plain(result), plain(void))
		}
		return b
	}
	return []ulb.Binding{
		versions(1, "NLMv1", u32), versions(3, "NLMv3", u32), versions(4, "NLMv4", u64),
	}
}

// nsm returns the Network Status Monitor (the Open Group's Protocols for
// Interworking, chapter 11).
func nsm() ulb.Binding {
	return ulb.Binding{Name: "NSM", Program: nsmProgram, Version: 1, Procs: []ulb.Proc{
		0: plain(void),
		1: plain(fixed(8)), // STAT, MON: result and state
		2: plain(fixed(8)),
		3: plain(u32), // UNMON, UNMON_ALL: state
		4: plain(u32),
		5: plain(void), // SIMU_CRASH
		6: plain(void), // NOTIFY
	}}
}

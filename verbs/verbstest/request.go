package verbstest

import (
	"github.com/rdmad/rdmad/verbs"
)

// Remote is memory as a peer addresses it.
type Remote struct {
	Addr uint64
	RKey uint32
}

// At returns the memory off bytes later.
func (r Remote) At(off int) Remote { return Remote{r.Addr + uint64(off), r.RKey} }

// Remote returns the side's region at off.
func (s *Side) Remote(off int) Remote { return RemoteMR(s.MR).At(off) }

// RemoteMR returns a region's first byte.
func RemoteMR(mr verbs.MR) Remote { return Remote{mr.Addr(), mr.RKey()} }

// RemoteMW returns a window's first byte.
func RemoteMW(mw verbs.MW) Remote { return Remote{mw.Addr(), mw.RKey()} }

// Send returns a signaled Send.
func Send(id uint64, sgl ...verbs.SGE) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpSend, Flags: verbs.SendSignaled, SGL: sgl}
}

// SendInvalidate returns a signaled Send With Invalidate.
func SendInvalidate(id uint64, key uint32, sgl ...verbs.SGE) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpSendInvalidate, Flags: verbs.SendSignaled, SGL: sgl, InvalidateRKey: key}
}

// Write returns a signaled RDMA Write.
func Write(id uint64, to Remote, sgl ...verbs.SGE) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpRDMAWrite, Flags: verbs.SendSignaled, SGL: sgl, RemoteAddr: to.Addr, RKey: to.RKey}
}

// Read returns a signaled RDMA Read.
func Read(id uint64, from Remote, sink verbs.SGE) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpRDMARead, Flags: verbs.SendSignaled, SGL: []verbs.SGE{sink}, RemoteAddr: from.Addr, RKey: from.RKey}
}

// LocalInvalidate returns a signaled Local Invalidate.
func LocalInvalidate(id uint64, key uint32) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpLocalInvalidate, Flags: verbs.SendSignaled, InvalidateRKey: key}
}

// Bind returns a signaled bind of a window.
func Bind(id uint64, b verbs.BindInfo) verbs.SendWR {
	return verbs.SendWR{ID: id, Op: verbs.OpBindMW, Flags: verbs.SendSignaled, Bind: b}
}

// Unsignaled returns wr without its own completion.
func Unsignaled(wr verbs.SendWR) verbs.SendWR {
	wr.Flags &^= verbs.SendSignaled
	return wr
}

// Fenced returns wr with SendFence: it waits for earlier Reads.
func Fenced(wr verbs.SendWR) verbs.SendWR {
	wr.Flags |= verbs.SendFence
	return wr
}

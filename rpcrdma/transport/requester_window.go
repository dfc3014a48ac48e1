package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// remoteAccess returns the access that the peer needs for a use.
func remoteAccess(u conn.Use) verbs.Access {
	if u.Writes() {
		return verbs.AccessRemoteWrite
	}
	return verbs.AccessRemoteRead
}

// expose adds to o the request that binds a window to n bytes of b from off. On devices
// without windows it registers them.
func (r *Requester) expose(o *op, b *regmem.Buffer, off, n int, use conn.Use) (window, error) {
	r.stats.Registrations++
	access := remoteAccess(use)
	if !r.host.attr.MemWindowType2B {
		if use.Writes() {
			access |= verbs.AccessLocalWrite
		}
		return r.host.pd.RegMR(b.Bytes()[off:off+n], access)
	}
	w, err := r.window()
	if err != nil {
		return nil, err
	}
	o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpBindMW, Bind: verbs.BindInfo{
		MW: w, MR: b.MR(), Offset: b.Offset() + off, Length: n, Access: access,
	}})
	return w, nil
}

// fence invalidates what a call still exposes. A window whose bind is not posted yet has no
// key, so exposed calls fence later.
func (r *Requester) fence(p *pending) {
	if p.exposing {
		p.fenceDue = true
		return
	}
	o := r.sq.newOp(opFence, p.out.Tag)
	o.signal = true
	fenced := false
	for i, w := range p.windows {
		if p.out.Windows[i].Revoked {
			continue
		}
		fenced = true
		r.stats.LocalInvalidations++
		if !r.host.attr.MemWindowType2B {
			if err := w.Close(); err != nil { // the peer may still use it
				r.sq.recycle(o)
				r.dieLocked(err)
				return
			}
			continue
		}
		o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpLocalInvalidate, InvalidateRKey: w.RKey()})
	}
	if fenced {
		r.stats.CallsFenced++
	}
	if len(o.wrs) == 0 {
		r.sq.recycle(o)
		r.recycleWindows(&p.windows)
		r.acts = r.core.Fenced(&p.out, r.acts)
		return
	}
	r.submit(o)
}

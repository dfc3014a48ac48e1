package transport

import (
	"github.com/rdmad/rdmad/rpcrdma/conn"
	"github.com/rdmad/rdmad/rpcrdma/transport/regmem"
	"github.com/rdmad/rdmad/verbs"
)

// window exposes a piece of memory to the peer: a type 2B memory window or, on devices
// without them, a registration.
type window struct {
	mw verbs.MW
	mr verbs.MR
}

func (w *window) rkey() uint32 {
	if w.mw != nil {
		return w.mw.RKey()
	}
	return w.mr.RKey()
}

func (w *window) addr() uint64 {
	if w.mw != nil {
		return w.mw.Addr()
	}
	return w.mr.Addr()
}

// remoteAccess returns the access that the peer needs for a use.
func remoteAccess(u conn.Use) verbs.Access {
	if u.Writes() {
		return verbs.AccessRemoteWrite
	}
	return verbs.AccessRemoteRead
}

// expose adds to o the request that binds a window to n bytes of b from off. On devices
// without windows it registers them.
func (r *Requester) expose(o *op, b *regmem.Buffer, off, n int, use conn.Use) (*window, error) {
	r.stats.Registrations++
	access := remoteAccess(use)
	if !r.host.attr.MemWindowType2B {
		if use.Writes() {
			access |= verbs.AccessLocalWrite
		}
		mr, err := r.host.pd.RegMR(b.Bytes()[off:off+n], access)
		if err != nil {
			return nil, err
		}
		return &window{mr: mr}, nil
	}
	w, err := r.window()
	if err != nil {
		return nil, err
	}
	o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpBindMW, Bind: verbs.BindInfo{
		MW: w.mw, MR: b.MR(), Offset: b.Offset() + off, Length: n, Access: access,
	}})
	return w, nil
}

// window returns a free window.
func (r *Requester) window() (*window, error) {
	if n := len(r.windows); n > 0 {
		w := r.windows[n-1]
		r.windows = r.windows[:n-1]
		return w, nil
	}
	mw, err := r.host.pd.AllocMW()
	if err != nil {
		return nil, err
	}
	w := &window{mw: mw}
	r.all = append(r.all, w)
	r.stats.WindowsAllocated++
	return w, nil
}

// recycleWindows takes back the windows of a call. The peer can no longer use them.
func (r *Requester) recycleWindows(p *pending) {
	for i, w := range p.windows {
		if w.mw != nil {
			r.windows = append(r.windows, w)
		}
		p.windows[i] = nil
	}
	p.windows = p.windows[:0]
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
		if w.mw == nil {
			w.mr.Close()
			continue
		}
		o.wrs = append(o.wrs, verbs.SendWR{Op: verbs.OpLocalInvalidate, InvalidateRKey: w.rkey()})
	}
	if fenced {
		r.stats.CallsFenced++
	}
	if len(o.wrs) == 0 {
		r.sq.recycle(o)
		r.recycleWindows(p)
		r.acts = r.core.Fenced(&p.out, r.acts)
		return
	}
	r.submit(o)
}

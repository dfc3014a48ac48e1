package loopback

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
)

// Remote addresses are of the device's own making, so that nobody takes them
// for pointers: regions lie one after the other with gaps between them.
const (
	firstAddr = 0x10_0000_0000
	addrPage  = 4096
	addrGap   = 1 << 20
)

// region is a memory region.
type region struct {
	pd     *pd
	buf    []byte
	access verbs.Access
	addr   uint64
	key    uint32

	windows int // bound to the region; guarded by the device's mu
	// uses is the number of copies going on, negative once the region is
	// closed; the copy that ends last closes idle.
	uses      atomic.Int64
	idle      chan struct{}
	closeOnce sync.Once
}

const regionClosed = -1 << 40

// RegMR registers buf, which may be empty.
func (p *pd) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	if access&^verbs.AccessAll != 0 || access&(verbs.AccessRemoteWrite|verbs.AccessLocalWrite) == verbs.AccessRemoteWrite {
		return nil, fmt.Errorf("loopback: access rights 0x%x: %w", access, verbs.ErrInvalid)
	}
	d := p.dev
	r := &region{pd: p, buf: buf, access: access, idle: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	if p.closed {
		return nil, verbs.ErrClosed
	}
	r.addr = d.nextAddr
	d.nextAddr += (uint64(len(buf))+addrPage-1)&^(addrPage-1) + addrGap
	r.key = d.stags.add(stag{region: r})
	p.users++
	d.live.MRs++
	return r, nil
}

func (r *region) Bytes() []byte { return r.buf }
func (r *region) Addr() uint64  { return r.addr }
func (r *region) RKey() uint32  { return r.key }

// acquire keeps the region from being closed until release; false when it is
// closed already.
func (r *region) acquire() bool {
	if r.uses.Add(1) > 0 {
		return true
	}
	r.release()
	return false
}

func (r *region) release() {
	if r.uses.Add(-1) == regionClosed {
		r.closeOnce.Do(func() { close(r.idle) })
	}
}

// Close waits for copies in progress; afterwards nothing touches the buffer.
// Requests that still name the region fail with WCLocProtErr.
func (r *region) Close() error {
	d := r.pd.dev
	d.mu.Lock()
	if r.windows > 0 {
		d.mu.Unlock()
		return fmt.Errorf("loopback: close MR: windows bound: %w", verbs.ErrBusy)
	}
	first := r.shut()
	d.mu.Unlock()
	if !first {
		return nil
	}
	d.stags.remove(r.key)
	<-r.idle
	d.mu.Lock()
	defer d.mu.Unlock()
	r.pd.users--
	d.live.MRs--
	return nil
}

// shut forbids new copies; false when somebody did so before.
func (r *region) shut() bool {
	for {
		n := r.uses.Load()
		if n < 0 {
			return false
		}
		if r.uses.CompareAndSwap(n, n+regionClosed) {
			if n == 0 {
				r.closeOnce.Do(func() { close(r.idle) })
			}
			return true
		}
	}
}

// sge is a checked verbs.SGE.
type sge struct {
	region *region
	off, n int
}

// acquireAll acquires the regions of a list, all or none.
func acquireAll(list []sge) bool {
	for i := range list {
		if !list[i].region.acquire() {
			releaseAll(list[:i])
			return false
		}
	}
	return true
}

func releaseAll(list []sge) {
	for i := range list {
		list[i].region.release()
	}
}

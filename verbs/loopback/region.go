package loopback

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rdmad/rdmad/verbs"
	"github.com/rdmad/rdmad/verbs/driver"
)

// The device makes its own remote addresses, so that nobody mistakes them for pointers.
// Regions follow each other with gaps between them.
const (
	firstAddr = 0x10_0000_0000
	addrPage  = 4096
	addrGap   = 1 << 20
)

// region is a memory region. Bound windows use it.
type region struct {
	driver.MR
	pd *pd

	// copies is the number of copies in progress. It is negative once the region is closed.
	// The last copy to end closes idle.
	copies    atomic.Int64
	idle      chan struct{}
	closeOnce sync.Once
}

const regionClosed = -1 << 40

// RegMR implements verbs.PD.
func (p *pd) RegMR(buf []byte, access verbs.Access) (verbs.MR, error) {
	r := &region{pd: p, idle: make(chan struct{})}
	if err := p.CreateMR(&r.MR, buf, access); err != nil {
		return nil, fmt.Errorf("loopback: %w", err)
	}
	d := p.dev
	d.mu.Lock()
	defer d.mu.Unlock()
	r.Base = d.nextAddr
	d.nextAddr += (uint64(len(buf))+addrPage-1)&^(addrPage-1) + addrGap
	r.Key = d.stags.add(stag{region: r})
	return r, nil
}

// acquire keeps the region from being closed until release. It returns false if it is
// closed already.
func (r *region) acquire() bool {
	if r.copies.Add(1) > 0 {
		return true
	}
	r.release()
	return false
}

func (r *region) release() {
	if r.copies.Add(-1) == regionClosed {
		r.closeOnce.Do(func() { close(r.idle) })
	}
}

// Close waits for copies in progress. Afterwards nothing accesses the buffer. Requests that
// still name the region fail with WCLocProtErr.
func (r *region) Close() error {
	first, err := r.Shut()
	if !first {
		return err
	}
	if r.copies.Add(regionClosed) == regionClosed {
		r.closeOnce.Do(func() { close(r.idle) })
	}
	r.pd.dev.stags.remove(r.Key)
	<-r.idle
	r.Free()
	return nil
}

// sge is a checked verbs.SGE.
type sge struct {
	region *region
	off, n int
}

// acquireAll acquires all regions of a list, or none.
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

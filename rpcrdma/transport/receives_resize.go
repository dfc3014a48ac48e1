package transport

// Changing the receive size. A queue pair cannot return a posted receive. So receives of
// the old size take messages until none is left, and are then posted again with new memory.

// resize makes later receives size bytes long.
func (r *receives) resize(size int) {
	r.size, r.below = size, 0
	for i := range r.bufs {
		if v := &r.bufs[i]; v.buf != nil && v.size < size {
			r.below++
		}
	}
	r.tells = r.below > 0
}

// renew replaces the memory of a receive that is about to be posted by memory of the
// current size. If there is none, the receive keeps its old memory.
func (r *receives) renew(v *receive) {
	b := r.pool.TryAlloc(r.start(r.size)+r.size, v.buf.Use())
	if b == nil {
		return
	}
	if v.size < r.size {
		r.below--
	}
	v.buf.Release()
	v.buf, v.size = b, r.size
}

// grown reports, once, that no receive is smaller than wanted any more.
func (r *receives) grown() bool {
	if !r.tells || r.below > 0 {
		return false
	}
	r.tells = false
	return true
}

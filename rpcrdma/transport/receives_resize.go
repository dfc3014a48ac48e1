package transport

// Receives of another size. A queue pair gives no receive back: those of the old
// size take messages until none is left, and are posted again with new memory.

// resize has receives of size bytes posted from now on.
func (r *receives) resize(size int) {
	r.size, r.below = size, 0
	for i := range r.bufs {
		if v := &r.bufs[i]; v.buf != nil && v.size < size {
			r.below++
		}
	}
	r.tells = r.below > 0
}

// renew gives a receive that is about to be posted memory of the size that is
// wanted now. Without, it keeps what it has.
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

// grown says, once, that no receive is smaller than wanted any more.
func (r *receives) grown() bool {
	if !r.tells || r.below > 0 {
		return false
	}
	r.tells = false
	return true
}

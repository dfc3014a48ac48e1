package referee

// ring holds the last values that were added to it.
type ring[T any] struct {
	list []T
	next int // place of the oldest, once the ring is full
}

// add adds a value to a ring of at most most values. It reports whether that
// dropped the oldest.
func (r *ring[T]) add(v T, most int) (dropped bool) {
	if len(r.list) < most {
		r.list = append(r.list, v)
		return false
	}
	r.list[r.next] = v
	r.next = (r.next + 1) % most
	return true
}

package loopback

// ring is a queue with absolute indexes: entry i is at(i) from push to pop. It doubles when
// full. Its owner limits it. A popped slot keeps its contents, so that the storage in it is
// reused.
type ring[T any] struct {
	buf        []T
	head, tail uint64
}

const ringMin = 8

func (r *ring[T]) len() int { return int(r.tail - r.head) }

func (r *ring[T]) at(i uint64) *T { return &r.buf[i&uint64(len(r.buf)-1)] }

// first returns the oldest entry. The ring must not be empty.
func (r *ring[T]) first() *T { return r.at(r.head) }

// push appends a slot, which the caller fills in.
func (r *ring[T]) push() *T {
	if r.len() == len(r.buf) {
		r.grow()
	}
	r.tail++
	return r.at(r.tail - 1)
}

func (r *ring[T]) pop() { r.head++ }

func (r *ring[T]) grow() {
	old := r.buf
	r.buf = make([]T, max(ringMin, 2*len(old)))
	for i := r.head; i != r.tail; i++ {
		*r.at(i) = old[i&uint64(len(old)-1)]
	}
}

package transport

// fifo is a queue that keeps its storage. Its owner limits its length.
type fifo[T any] struct {
	buf         []T // its length is a power of two
	first, next uint
}

func (f *fifo[T]) len() int { return int(f.next - f.first) }

func (f *fifo[T]) push(v T) {
	if f.len() == len(f.buf) {
		f.grow()
	}
	f.buf[f.next&uint(len(f.buf)-1)] = v
	f.next++
}

func (f *fifo[T]) grow() {
	buf := make([]T, max(8, 2*len(f.buf)))
	n := f.len()
	for i := range n {
		buf[i] = f.buf[(f.first+uint(i))&uint(len(f.buf)-1)]
	}
	f.buf, f.first, f.next = buf, 0, uint(n)
}

// shrink frees the storage of an empty queue.
func (f *fifo[T]) shrink() {
	if f.len() == 0 {
		*f = fifo[T]{}
	}
}

// peek returns the oldest value. The queue must not be empty.
func (f *fifo[T]) peek() T { return f.buf[f.first&uint(len(f.buf)-1)] }

func (f *fifo[T]) pop() T {
	var zero T
	i := f.first & uint(len(f.buf)-1)
	v := f.buf[i]
	f.buf[i] = zero
	f.first++
	return v
}

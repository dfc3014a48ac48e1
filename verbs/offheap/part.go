package offheap

// Part is memory that the process keeps for one owner, who takes it when the common memory is used up.
// Owners that hold memory while they wait for others could otherwise have all of it, and wait for ever.
type Part struct {
	size int64

	// Under the account's lock:
	used   int64
	closed bool
}

// Keep makes a part of n bytes. While all parts together are more than 3/4 of the limit, nothing is kept, and
// their Alloc fails.
func Keep(n int) *Part {
	p := &Part{size: int64(wholePages(n))}
	account.mu.Lock()
	account.kept += p.size
	account.mu.Unlock()
	account.wake() // if nothing is kept now, there is more for all
	return p
}

// Alloc returns n bytes of the part, rounded up to whole pages. If there are not as many left, the error is
// ErrLimit. They are beyond the limit if others had too much when the part was made, or when the limit was
// lowered, and have not given it back.
func (p *Part) Alloc(n int) (*Region, error) { return alloc(n, p, p.take) }

func (p *Part) take(n int64) bool {
	l := &account
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.closed || !l.keeps() || p.used+n > p.size {
		return false
	}
	p.used += n
	l.lent += n
	l.count(n)
	return true
}

// Close keeps the part no longer. Its regions stay until they are freed. A second Close does nothing.
func (p *Part) Close() {
	l := &account
	l.mu.Lock()
	if !p.closed {
		p.closed = true
		l.kept -= p.size
		l.lent -= p.used
	}
	l.mu.Unlock()
	l.wake()
}

// keeps reports whether memory is kept. l.mu is held.
func (l *ledger) keeps() bool { return l.kept <= l.limit/4*3 }
